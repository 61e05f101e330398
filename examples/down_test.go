package examples_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/deletion"
	"github.com/kplan-dev/kplan/steps/teardown"
)

// What is taken down leaves the cluster as it was before the run, object by object,
// also where the webhook that would have to agree is dead. The lab is the test's own:
// definitions go too.
func TestDown(t *testing.T) {
	lab := labtest.OwnNode(t, "test-down")
	lab.Operator(t)
	install(t, lab, "kcm", "kcm", "kcm-system") // is there before the catalog's templates, and stays
	before := snapshot(t, lab)
	t.Run("side by side", func(t *testing.T) {
		t.Run("eso", func(t *testing.T) {
			t.Parallel()
			in := lab1("eso")
			run(t, lab, "eso/plan.yaml", in)
			set := lab.Clientset(t)
			kill(t, set, "external-secrets")
			err := down(t, lab, "eso/plan.yaml", in, deletion.Options{})
			require.ErrorContains(t, err, `webhook "validate.externalsecret.external-secrets.io" of externalsecret-validate cannot be called: Deployment/external-secrets/external-secrets-webhook behind its Service external-secrets/external-secrets-webhook is scaled to 0`)
			require.Contains(t, runner.HintOf(err), "kplan down --break-webhooks")
			require.NoError(t, down(t, lab, "eso/plan.yaml", in, deletion.Options{BreakWebhooks: true}))
		})
		t.Run("kgst", func(t *testing.T) {
			t.Parallel()
			in := lab1("kgst")
			run(t, lab, "kgst/plan.yaml", in)
			require.NoError(t, down(t, lab, "kgst/plan.yaml", in, deletion.Options{}))
			// The chart wants its objects to be kept, and so the namespace with them is.
			client, err := dynamic.NewForConfig(lab.Config(t))
			require.NoError(t, err)
			for _, namespace := range []string{"team-a", "kcm-system"} {
				for _, gvr := range []schema.GroupVersionResource{
					{Group: "k0rdent.mirantis.com", Version: "v1beta1", Resource: "servicetemplates"},
					{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "helmrepositories"},
				} {
					kept, err := client.Resource(gvr).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
					require.NoError(t, err)
					require.NotEmpty(t, kept.Items)
					for _, o := range kept.Items {
						require.Equal(t, "keep", o.GetAnnotations()["helm.sh/resource-policy"])
						require.NoError(t, client.Resource(gvr).Namespace(namespace).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
					}
				}
			}
			require.NoError(t, down(t, lab, "kgst/plan.yaml", in, deletion.Options{}))
		})
		t.Run("race", func(t *testing.T) {
			upAndDown(t, lab, "../lab/race/plan.yaml", load.Options{Set: []string{"listen_delay=1s"}})
		})
		t.Run("certificates", func(t *testing.T) {
			t.Parallel()
			in := lab1("certmanager")
			run(t, lab, "certmanager/plan.yaml", in)
			for _, mode := range []string{"automatic", "cert-manager"} {
				in := lab1("dynamo")
				in.Set = []string{"certificates=" + mode}
				run(t, lab, "dynamo/plan.yaml", in)
				require.NoError(t, down(t, lab, "dynamo/plan.yaml", in, deletion.Options{}), mode)
			}
			require.NoError(t, down(t, lab, "certmanager/plan.yaml", in, deletion.Options{}))
		})
	})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Empty(c, differences(before, snapshot(t, lab)))
	}, patience, interval)
}

func upAndDown(t *testing.T, lab *labtest.Lab, file string, in load.Options) {
	t.Helper()
	t.Parallel()
	run(t, lab, file, in)
	require.NoError(t, down(t, lab, file, in, deletion.Options{}))
	require.NoError(t, down(t, lab, file, in, deletion.Options{}), "nothing is left")
}

// kill scales the Deployments of a namespace to 0, and waits until their pods are gone.
func kill(t *testing.T, set kubernetes.Interface, namespace string) {
	t.Helper()
	all, err := set.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, d := range all.Items {
		_, err := set.AppsV1().Deployments(namespace).Patch(t.Context(), d.Name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		pods, err := set.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(c, err)
		require.Empty(c, pods.Items)
	}, patience, interval)
}

// run runs a plan.
func run(t *testing.T, lab *labtest.Lab, file string, in load.Options) {
	t.Helper()
	p, err := load.File(file, in)
	require.NoError(t, err)
	require.NoError(t, do(t, steps.Config{Plan: p, Flags: lab.Flags(), Run: "test", UserAgent: "kplan-test"}))
}

// down takes away what a plan has made, as kplan down --delete-crds does.
func down(t *testing.T, lab *labtest.Lab, file string, in load.Options, o deletion.Options) error {
	t.Helper()
	p, err := load.File(file, in)
	require.NoError(t, err)
	down, err := teardown.Look(t.Context(), teardown.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test", DeleteCRDs: true, All: true})
	require.NoError(t, err)
	if len(down.Plan.Steps) == 0 {
		return nil
	}
	return do(t, steps.Config{Plan: down.Plan, Flags: lab.Flags(), Deletion: o, UserAgent: "kplan-test"})
}

func do(t *testing.T, c steps.Config) error {
	t.Helper()
	s, err := steps.New(t.Context(), c)
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*patience, errors.New("the example takes too long"))
	defer cancel()
	r := runner.Runner{Resolve: s.Resolve, ReadInputs: s.ReadInputs}
	_, err = r.Run(ctx, c.Plan)
	return err
}

// transient are the kinds that the control plane itself makes and removes, or that
// say what happens: they are not compared.
var transient = []string{"Event", "Lease", "Endpoints", "EndpointSlice", "APIService", "Node", "CSINode", "PodMetrics", "NodeMetrics"}

// snapshot is all of a cluster that can be listed, but for what changes by itself.
func snapshot(t *testing.T, lab *labtest.Lab) map[string]string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(lab.Config(t))
	require.NoError(t, err)
	lists, err := client.ServerPreferredResources()
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	all := map[string]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(transient, r.Kind) {
				continue
			}
			found, err := objects.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil { // it is being removed
				all[list.GroupVersion+" "+r.Name] = err.Error()
				continue
			}
			for _, u := range found.Items {
				all[strings.Join([]string{gv.Group, r.Kind, u.GetNamespace(), u.GetName()}, "/")] = content(t, u)
			}
		}
	}
	return all
}

// content is an object without what changes by itself.
func content(t *testing.T, u unstructured.Unstructured) string {
	t.Helper()
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	delete(u.Object, "status")
	b, err := json.Marshal(u.Object)
	require.NoError(t, err)
	return string(b)
}

func differences(before, after map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if was, ok := before[key]; !ok {
			all = append(all, "new: "+key)
		} else if was != after[key] {
			all = append(all, fmt.Sprintf("changed: %s\n%s\n%s", key, was, after[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			all = append(all, "gone: "+key)
		}
	}
	return all
}
