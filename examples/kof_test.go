package examples_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// runKOF runs both layouts of KOF against two labs: the management cluster is
// one of them, and the regional and the child cluster are the other, reached by
// kubeconfigs in Secrets of the first. The test plays Flux and KCM's rollout,
// which the lab has not.
func runKOF(t *testing.T, lab *labtest.Lab) {
	t.Helper()
	region := labtest.OwnNode(t, "test-region")
	region.Operator(t)
	kubeconfig, err := os.ReadFile(region.Kubeconfig)
	require.NoError(t, err)
	for _, name := range []string{"regional", "child"} {
		_, err := lab.Clientset(t).CoreV1().Secrets("kcm-system").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig", Labels: map[string]string{"k0rdent.mirantis.com/component": "kcm"}},
			Data:       map[string][]byte{"value": kubeconfig},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
	require.NoError(t, err)
	for _, layout := range []struct{ file, vars, set string }{
		{"kof/before-1.8.yaml", "kof-before-1.8", "kof_charts=" + slowOperators(t)}, {"kof/plan.yaml", "kof", "kof_chart=../../lab/charts/kof"},
	} {
		t.Run(layout.file, func(t *testing.T) {
			roll(t, lab, region)
			in := lab1(layout.vars)
			in.Set = []string{"mothership=" + config.CurrentContext, layout.set}
			events := runPlan(t, lab, layout.file, in) // roll takes the namespace away, after Flux's releases in it
			requireRules(t, region)
			lines, still, logs := requireBrief(t, events)
			if layout.vars == "kof" {
				require.LessOrEqual(t, lines+still, 60)
			} else {
				require.Positive(t, logs, "slow operators are heard")
			}
		})
	}
}

// slowOperators is a copy of the lab's charts, whose kof-operators is not ready for long
// enough that its pods are heard.
func slowOperators(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../lab/charts")))
	file := filepath.Join(dir, "kof-operators", "values.yaml")
	values, err := os.ReadFile(file)
	require.NoError(t, err)
	slow := strings.Replace(string(values), "listenDelay: 2s", "listenDelay: 15s", 1)
	require.NotEqual(t, string(values), slow)
	require.NoError(t, os.WriteFile(file, []byte(slow), 0o600))
	return dir
}

// requireRules wants what the plan applied to the other clusters.
func requireRules(t *testing.T, region *labtest.Lab) {
	t.Helper()
	client, err := dynamic.NewForConfig(region.Config(t))
	require.NoError(t, err)
	for _, gvr := range []schema.GroupVersionResource{
		{Group: "operator.victoriametrics.com", Version: "v1beta1", Resource: "vmrules"},
		{Group: "opentelemetry.io", Version: "v1alpha1", Resource: "instrumentations"},
	} {
		_, err := client.Resource(gvr).Namespace("kof").Get(t.Context(), "install-plan", metav1.GetOptions{})
		require.NoError(t, err)
	}
}

// rollout installs by Helm what the management cluster's objects ask for: Flux's
// part for HelmReleases, KCM's for ClusterDeployments. It tries again after a
// failure, as both do, and gives a release that is there its Ready condition.
type rollout struct {
	t              *testing.T
	mothership     dynamic.Interface
	lab, region    *labtest.Lab
	done, deployed map[string]bool // objects that are Ready; releases of region
}

var (
	helmReleases    = schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
	deployments     = schema.GroupVersionResource{Group: "k0rdent.mirantis.com", Version: "v1beta1", Resource: "clusterdeployments"}
	clusterServices = schema.GroupVersionResource{Group: "k0rdent.mirantis.com", Version: "v1beta1", Resource: "multiclusterservices"}
	credentials     = schema.GroupVersionResource{Group: "k0rdent.mirantis.com", Version: "v1beta1", Resource: "credentials"}
)

// standIns are the charts in the lab that stand for those of KOF with another name.
var standIns = map[string]string{"kof-storage": "kof-mothership", "victoria-metrics-operator": "kof-mothership"}

// roll rolls out until the end of the test, and takes everything away then.
func roll(t *testing.T, lab, region *labtest.Lab) {
	t.Helper()
	mothership, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	r := &rollout{t: t, mothership: mothership, lab: lab, region: region, done: map[string]bool{}, deployed: map[string]bool{}}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		r.loop(ctx)
	}()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		<-ended
		for name := range r.deployed {
			uninstall(t, region, name, "kof")
		}
		for name := range r.done {
			uninstall(t, lab, name, "kof")
		}
		gone(t, region, "kof")
		gone(t, lab, "kof")
		for _, gvr := range []schema.GroupVersionResource{deployments, credentials} {
			for _, name := range []string{"regional", "child"} {
				err := mothership.Resource(gvr).Namespace("kcm-system").Delete(context.Background(), name, metav1.DeleteOptions{})
				assert.True(t, err == nil || apierrors.IsNotFound(err), "%s %s: %v", gvr.Resource, name, err)
			}
		}
	})
}

// loop owns the rollout's state until ctx ends.
func (r *rollout) loop(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		err := errors.Join(r.flux(ctx), r.kcm(ctx))
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			r.t.Log("rollout: ", said)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// flux installs each HelmRelease whose dependsOn are Ready.
func (r *rollout) flux(ctx context.Context) error {
	list, err := r.mothership.Resource(helmReleases).Namespace("kof").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, release := range list.Items {
		name := release.GetName()
		if r.done[name] || !r.may(release.Object, "spec") {
			continue
		}
		values, _, _ := unstructured.NestedMap(release.Object, "spec", "values")
		if err := r.helm(ctx, r.lab, name, values); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.ready(ctx, helmReleases, &release))
	}
	return errors.Join(errs...)
}

// kcm installs, on the cluster of each ClusterDeployment, the services that are
// for clusters of its role.
func (r *rollout) kcm(ctx context.Context) error {
	list, err := r.mothership.Resource(deployments).Namespace("kcm-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, cluster := range list.Items {
		role := cluster.GetLabels()["k0rdent.mirantis.com/kof-cluster-role"]
		if r.done[cluster.GetName()] {
			continue
		}
		service, err := r.mothership.Resource(clusterServices).Get(ctx, "kof-"+role+"-cluster", metav1.GetOptions{})
		if err != nil {
			return err
		}
		services, _, _ := unstructured.NestedSlice(service.Object, "spec", "serviceSpec", "services")
		for _, s := range services {
			m, _ := s.(map[string]any)
			name, _ := m["name"].(string)
			text, _ := m["values"].(string)
			var values map[string]any
			if err := yaml.Unmarshal([]byte(text), &values); err != nil {
				return err
			}
			if r.deployed[name] {
				continue
			}
			if err := r.helm(ctx, r.region, name, values); err != nil {
				return err
			}
			r.deployed[name] = true
		}
		if err := r.ready(ctx, deployments, &cluster); err != nil {
			return err
		}
	}
	return nil
}

// may tells whether everything in dependsOn is there.
func (r *rollout) may(obj map[string]any, fields ...string) bool {
	after, _, _ := unstructured.NestedSlice(obj, append(fields, "dependsOn")...)
	for _, a := range after {
		if m, _ := a.(map[string]any); !r.done[fmt.Sprint(m["name"])] {
			return false
		}
	}
	return true
}

// helm installs a stand-in and waits for it. What failed is uninstalled first,
// as Flux's remediation does.
func (r *rollout) helm(ctx context.Context, lab *labtest.Lab, name string, values map[string]any) error {
	chart := name
	if other, ok := standIns[name]; ok {
		chart = other
	}
	c, err := loader.Load("../lab/charts/" + chart)
	if err != nil {
		return err
	}
	config := helmOf(r.t, lab, "kof")
	remove := action.NewUninstall(config)
	remove.IgnoreNotFound = true
	if _, err := remove.Run(name); err != nil {
		return err
	}
	do := action.NewInstall(config)
	do.ReleaseName, do.Namespace, do.CreateNamespace = name, "kof", true
	do.Wait, do.Timeout = true, patience
	_, err = do.RunWithContext(ctx, c, values)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ready sets the object's Ready condition.
func (r *rollout) ready(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	obj.Object["status"] = map[string]any{
		"observedGeneration": obj.GetGeneration(),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "everything is installed",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}
	_, err := r.mothership.Resource(gvr).Namespace(obj.GetNamespace()).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	if err == nil {
		r.done[obj.GetName()] = true
	}
	return err
}
