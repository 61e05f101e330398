package steps_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/teardown"
)

// spaceChart is a chart that brings a namespace, in which it has something.
func spaceChart(t *testing.T, name, annotations string) string {
	t.Helper()
	return chartOf(t, map[string]string{
		"space.yaml": "{apiVersion: v1, kind: Namespace, metadata: {name: " + name + ", annotations: {" + annotations + "}}}",
		"inner.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: inner, namespace: " + name + "}}",
	})
}

// A namespace among the objects of a release goes with it, but not with what others
// have put into it.
func TestNamespaceOfAChart(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"with nothing else in it": false, "with something of others": true} {
		for where, hook := range map[string]string{"": "", " and made by a hook": "helm.sh/hook: pre-install"} {
			t.Run(name+where, func(t *testing.T) {
				t.Parallel()
				lab := labtest.ControlPlane(t)
				ns := lab.Namespace(t)
				inner := ns + "-inner"
				core := lab.Clientset(t).CoreV1()
				t.Cleanup(func() { _ = core.Namespaces().Delete(context.Background(), inner, metav1.DeleteOptions{}) })
				up := runPlan(t, lab, ns, "\n- name: up\n  helm: {chart: "+spaceChart(t, inner, hook)+", release: NS, namespace: NS}\n")
				require.NoError(t, up.err)
				if foreign {
					_, err := core.ConfigMaps(inner).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{FieldManager: "kubectl"})
					require.NoError(t, err)
				}

				down := runPlan(t, lab, ns, "\n- name: down\n  delete: {release: NS, namespace: NS}\n")

				require.NoError(t, down.err)
				records, err := core.Secrets(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
				require.NoError(t, err)
				require.Empty(t, records.Items)
				_, err = core.ConfigMaps(inner).Get(t.Context(), "inner", metav1.GetOptions{})
				require.True(t, apierrors.IsNotFound(err), "%v", err)
				left, err := core.Namespaces().Get(t.Context(), inner, metav1.GetOptions{})
				if !foreign {
					require.True(t, apierrors.IsNotFound(err), "%v", err)
					return
				}
				require.NoError(t, err)
				require.Nil(t, left.DeletionTimestamp)
				_, err = core.ConfigMaps(inner).Get(t.Context(), "theirs", metav1.GetOptions{})
				require.NoError(t, err)
				require.Contains(t, down.execution.Step("down").Message, "1 stay")
			})
		}
	}
}

// A release that has its own namespace among its objects is uninstalled before that
// goes.
func TestNamespaceOfTheRelease(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	core := lab.Clientset(t).CoreV1()
	_, err := core.Namespaces().Patch(t.Context(), ns, "application/merge-patch+json", []byte(`{"metadata":{
		"labels":{"app.kubernetes.io/managed-by":"Helm"},
		"annotations":{"meta.helm.sh/release-name":"`+ns+`","meta.helm.sh/release-namespace":"`+ns+`"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	chart := spaceChart(t, ns, "")
	require.NoError(t, runPlan(t, lab, ns, "\n- name: up\n  helm: {chart: "+chart+", release: NS, namespace: NS}\n").err)

	down := runPlan(t, lab, ns, "\n- name: down\n  delete: {release: NS, namespace: NS}\n")

	require.NoError(t, down.err)
	_, err = core.Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// What kplan down says of the namespace of a chart is what it does: what other steps
// have in it goes before.
func TestDownOfAChartsNamespace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		needs string // of the step that has something in the namespace
		stays bool
	}{
		"the other step goes before":    {needs: "needs: [chart]"},
		"the other step goes some time": {stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			inner := ns + "-inner"
			core := lab.Clientset(t).CoreV1()
			t.Cleanup(func() { _ = core.Namespaces().Delete(context.Background(), inner, metav1.DeleteOptions{}) })
			p := planOf(t, lab, ns, "\n- name: chart\n  helm: {chart: "+spaceChart(t, inner, "")+", release: NS, namespace: NS}\n"+
				"- name: other\n  "+c.needs+"\n  retry: {install_retries: 20, retry_delay_seconds: 0.2}\n"+
				"  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: "+inner+"}}]}\n")
			require.NoError(t, runSteps(t, lab, ns, "", steps.Config{Plan: p, Run: "one"}).err)

			look, err := teardown.Look(t.Context(), teardown.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test", All: true})

			require.NoError(t, err)
			goes := false
			for _, s := range look.Steps {
				for _, o := range s.Goes {
					goes = goes || o.Object == "Namespace/"+inner
				}
			}
			require.Equal(t, !c.stays, goes)
			if c.stays { // the steps go side by side
				return
			}
			require.NoError(t, runSteps(t, lab, ns, "", steps.Config{Plan: look.Plan}).err)
			_, err = core.Namespaces().Get(t.Context(), inner, metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "%v", err)
		})
	}
}
