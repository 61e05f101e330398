package steps_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// The pods of a DaemonSet whose owner replaces them by hand are not waited for
// after an upgrade: nobody makes new ones.
func TestHelmStepUpgradesADaemonSetOnDelete(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{"agent.yaml": `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {app: agent}, annotations: {version: "{{ .Values.version }}"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: agent, image: ` + labtest.OperatorImage + `, args: [--help]}]
`})
	step := func(version string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: {version: "+version+"}}\n")
	}
	require.NoError(t, step("one").err)
	agents := lab.Clientset(t).AppsV1().DaemonSets(ns)
	require.Eventually(t, func() bool { // its pod is of the first version
		d, err := agents.Get(t.Context(), "agent", metav1.GetOptions{})
		return err == nil && d.Status.UpdatedNumberScheduled == 1
	}, time.Minute, 50*time.Millisecond)

	upgrade := step("two")

	require.NoError(t, upgrade.err)
	require.Equal(t, 2, upgrade.execution.Step("s").Revision)
	d, err := agents.Get(t.Context(), "agent", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 0, d.Status.UpdatedNumberScheduled, "the old pod is still there")
	require.Equal(t, runner.StateUnchanged, step("two").execution.Step("s").State)
}

// thingChart is a chart with a custom resource that is not ready until somebody
// says so, and a hook after the install.
func thingChart(t *testing.T, ns string) (dir string, things schema.GroupVersionResource) {
	t.Helper()
	things = schema.GroupVersionResource{Group: ns + ".kplan.dev", Version: "v1", Resource: "things"}
	dir = chartOf(t, map[string]string{
		"thing.yaml": "{apiVersion: " + things.Group + "/v1, kind: Thing, metadata: {name: thing}, spec: {size: {{ .Values.size | default 1 }}}, " +
			"status: {conditions: [{type: Ready, status: 'False', message: nobody has looked}]}}",
		"hook.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: 'post-install,post-upgrade'}}}",
	})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "crds"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crds", "things.yaml"), []byte(strings.ReplaceAll(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, "GROUP", things.Group)), 0o600))
	return dir, things
}

// Custom resources are waited for after the hooks that may be what makes them
// ready; Helm has its release deployed by then.
func TestHelmStepWaitsForCustomResourcesLast(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir, things := thingChart(t, ns)
	dyn, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	dropCRD(t, dyn, things.Resource+"."+things.Group)
	step := func(timeout string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: "+timeout+"\n  helm: {chart: "+dir+", release: NS, namespace: NS}\n")
	}

	first := step("20s")

	var timeout *runner.TimeoutError
	require.ErrorAs(t, first.err, &timeout)
	require.ErrorContains(t, first.err, "thing/thing")
	require.ErrorContains(t, first.err, "nobody has looked")
	require.Equal(t, map[int]release.Status{1: release.StatusDeployed}, statuses(t, lab, ns))

	// The hook's part is the test's: it makes the resource ready once the hook is there.
	require.NoError(t, lab.Clientset(t).CoreV1().ConfigMaps(ns).Delete(t.Context(), "hook", metav1.DeleteOptions{}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte("{size: 2}"), 0o600))
	ctx, stop := context.WithCancelCause(t.Context())
	mended := make(chan error, 1)
	go func() { mended <- mendAfterHook(ctx, dyn.Resource(things).Namespace(ns), lab.Clientset(t), ns) }()
	upgrade := step("1m")
	if upgrade.err != nil {
		stop(errors.New("the step failed"))
	}
	require.NoError(t, upgrade.err)
	require.NoError(t, <-mended)
	stop(nil)
	require.Equal(t, 2, upgrade.execution.Step("s").Revision)

	require.Equal(t, runner.StateUnchanged, step("1m").execution.Step("s").State)
}

// mendAfterHook makes the thing ready once the hook is there.
func mendAfterHook(ctx context.Context, things dynamic.ResourceInterface, clientset kubernetes.Interface, ns string) error {
	for {
		_, err := clientset.CoreV1().ConfigMaps(ns).Get(ctx, "hook", metav1.GetOptions{})
		if err == nil {
			_, err = things.Patch(ctx, "thing", types.MergePatchType, []byte(`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`), metav1.PatchOptions{})
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A custom resource that does not get ready is a failure of the step, and what
// that does with the release it does.
func TestHelmStepUndoesForCustomResources(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir, things := thingChart(t, ns)
	dyn, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	dropCRD(t, dyn, things.Resource+"."+things.Group)
	step := func(wait, onFailure, size string) error {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 20s\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait: "+wait+
			", on_failure: "+onFailure+", values: {size: "+size+"}}\n").err
	}

	err = step("ready", "uninstall", "1")
	require.ErrorContains(t, err, "nobody has looked")
	require.ErrorContains(t, err, "uninstalling the release, which was never deployed, succeeded")
	_, err = helmOf(t, lab, ns).Releases.History(ns)
	require.ErrorContains(t, err, "not found")

	require.NoError(t, step("hooks", "keep", "1"))
	err = step("ready", "rollback", "2")
	require.ErrorContains(t, err, "rolling back to revision 1 succeeded")
	require.Equal(t, map[int]release.Status{1: release.StatusSuperseded, 2: release.StatusSuperseded, 3: release.StatusDeployed}, statuses(t, lab, ns))
	thing, err := dyn.Resource(things).Namespace(ns).Get(t.Context(), "thing", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"size": int64(1)}, thing.Object["spec"])
}
