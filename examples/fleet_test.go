package examples_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/local"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/ledger"
)

// definitions are the kinds of custom resources.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestFleet runs the fleet of Cluster API on two labs, one in each wave, and freezes the one of
// k0rdent. The first lab is the management cluster too.
func TestFleet(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	region := labtest.OwnNode(t, "test-fleet")
	region.Operator(t)
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	namespace := lab.Namespace(t)
	for ring, of := range map[string]*labtest.Lab{"canary": lab, "rest": region} {
		kubeconfig, err := os.ReadFile(of.Kubeconfig)
		require.NoError(t, err)
		_, err = lab.Clientset(t).CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: ring + "-kubeconfig"}, Data: map[string][]byte{"value": kubeconfig},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, c := range []struct{ file, group, plural, kind string }{
		{"capi", "cluster.x-k8s.io", "clusters", "Cluster"}, {"k0rdent", "k0rdent.mirantis.com", "clusterdeployments", "ClusterDeployment"},
	} {
		resource := define(t, client, c.group, c.plural, c.kind).Namespace(namespace)
		for ring, name := range map[string]string{"canary": "eu", "rest": "us"} {
			_, err := resource.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": c.group + "/v1beta1", "kind": c.kind, "spec": map[string]any{},
				"metadata": map[string]any{"name": ring, "labels": map[string]any{"kplan.dev/fleet": "secrets", "region": name, "ring": ring}},
			}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}

	f := openFleet(t, lab, "capi", namespace)
	require.Equal(t, "local", f.frozen.Engine)
	require.Equal(t, "kubernetes", openFleet(t, lab, "k0rdent", namespace).frozen.Engine)

	t.Cleanup(func() {
		for _, of := range []*labtest.Lab{lab, region} {
			uninstall(t, of, "external-secrets", "external-secrets")
			gone(t, of, "external-secrets")
		}
	})
	f.run(t)
	for of, want := range map[*labtest.Lab]string{lab: "eu", region: "us"} {
		store, err := dynamicOf(t, of).Resource(schema.GroupVersionResource{Group: "external-secrets.io", Version: "v1beta1", Resource: "clustersecretstores"}).Get(t.Context(), "region", metav1.GetOptions{})
		require.NoError(t, err)
		data, _, err := unstructured.NestedSlice(store.Object, "spec", "provider", "fake", "data")
		require.NoError(t, err)
		require.Equal(t, []any{map[string]any{"key": "region", "value": want}}, data)
	}
}

func dynamicOf(t *testing.T, lab *labtest.Lab) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	return client
}

// define makes a kind without a schema until the end of the test, unless it is there.
func define(t *testing.T, client dynamic.Interface, group, plural, kind string) dynamic.NamespaceableResourceInterface {
	t.Helper()
	resource := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: plural})
	if _, err := client.Resource(definitions).Get(t.Context(), plural+"."+group, metav1.GetOptions{}); err == nil {
		return resource
	}
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind}, "versions": []any{map[string]any{
			"name": "v1beta1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}}},
	}
	body, err := json.Marshal(definition)
	require.NoError(t, err)
	_, err = client.Resource(definitions).Patch(t.Context(), plural+"."+group, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test"})
	require.NoError(t, err)
	t.Cleanup(func() {
		err := client.Resource(definitions).Delete(context.Background(), plural+"."+group, metav1.DeleteOptions{})
		assert.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	})
	require.Eventually(t, func() bool {
		_, err := resource.List(context.Background(), metav1.ListOptions{Limit: 1})
		return err == nil
	}, patience, 50*time.Millisecond)
	return resource
}

// fleetOf is a fleet that was frozen.
type fleetOf struct {
	file    *fleetload.Fleet
	frozen  *freeze.Frozen
	members *member.Config
}

// openFleet freezes an example with the objects of a namespace.
func openFleet(t *testing.T, lab *labtest.Lab, name, namespace string) *fleetOf {
	t.Helper()
	in := lab1("fleet")
	f, err := fleetload.File(filepath.Join("fleet", name+".yaml"), in)
	require.NoError(t, err)
	entry := f.Inventory[0]
	for _, source := range []*fleet.ObjectSource{entry.CAPI, entry.K0rdent} {
		if source != nil {
			source.Namespace = namespace
		}
	}
	managed := inventory.NewManagement(inventory.Options{Dir: f.Dir, Flags: lab.Flags(), UserAgent: "kplan-test"})
	found, err := managed.Find(t.Context(), f.Inventory)
	require.NoError(t, err)
	kubeconfigs := inventory.Kubeconfigs{Management: managed}
	frozen, err := freeze.Freeze(t.Context(), freeze.Input{Fleet: f, Found: found, Values: in, Kubeconfig: kubeconfigs.Read})
	require.NoError(t, err)
	require.Empty(t, frozen.Notes)
	for i, ring := range []string{"canary", "rest"} {
		require.Equal(t, namespace+"/"+ring, frozen.Clusters[i].Name)
		require.Equal(t, ring, frozen.Clusters[i].Wave)
	}
	return &fleetOf{f, frozen, &member.Config{
		File: f.PlanFile, Inputs: in, Target: frozen.Target, Kubeconfig: kubeconfigs.Read, Flags: lab.Flags(), UserAgent: "kplan-test", By: "test@here",
	}}
}

// run runs the fleet, and wants it done on all clusters.
func (f *fleetOf) run(t *testing.T) {
	t.Helper()
	run, err := record.FolderOf(t.TempDir()).Begin(ledger.NewRunID(), f.frozen.Rollout, record.Inputs{})
	require.NoError(t, err)
	x, err := (&local.Engine{Record: run, Members: f.members, By: "test@here"}).Run(t.Context())
	require.NoError(t, err)
	for _, c := range x.Clusters {
		require.NotNil(t, c.Result, c.Name)
		require.True(t, c.State.Good(), "%s: %s", c.Name, c.Result.Error)
	}
	canary, rest := x.Cluster(x.Waves[0].Members[0].Name), x.Cluster(x.Waves[1].Members[0].Name)
	require.False(t, rest.Result.Started.Before(canary.Result.Ended.Add(10*time.Second)), "the canary soaks")
}
