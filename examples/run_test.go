package examples_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// Each example runs to its end on a real node, with the lab's stand-in charts:
// no step fails, and each chart is installed by its first attempt. Those that
// share names in the cluster run one after the other, the rest side by side.
func TestPlansRun(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	// k0rdent's cluster manager is there before KOF and the catalog's templates.
	t.Cleanup(func() { gone(t, lab, "kcm-system") }) // after its webhook, which is asked about deletions
	install(t, lab, "kcm", "kcm", "kcm-system")
	t.Run("side by side", func(t *testing.T) {
		t.Run("eso", func(t *testing.T) {
			t.Parallel()
			runPlan(t, lab, "eso/plan.yaml", lab1("eso"), "external-secrets", "registry-credentials", "hello-world", "nodejs-demo", "storage-validator")
			secrets := lab.Clientset(t).CoreV1().Secrets("default")
			require.NoError(t, secrets.Delete(t.Context(), "image-pull", metav1.DeleteOptions{}))
		})
		t.Run("kgst", func(t *testing.T) {
			t.Parallel()
			runCatalog(t, lab)
		})
		t.Run("race", func(t *testing.T) {
			t.Parallel()
			runPlan(t, lab, "../lab/race/plan.yaml", load.Options{Set: []string{"listen_delay=5s"}}, "race")
		})
		t.Run("kof", func(t *testing.T) {
			t.Parallel()
			runKOF(t, lab)
		})
		t.Run("certificates", func(t *testing.T) {
			t.Parallel()
			runPlan(t, lab, "certmanager/plan.yaml", lab1("certmanager"), "cert-manager", "shop")
			for _, mode := range []string{"automatic", "external", "cert-manager"} {
				t.Run(mode, func(t *testing.T) { runDynamo(t, lab, mode) })
			}
		})
	})
}

// lab1 are the lab's variables of an example.
func lab1(name string) load.Options {
	return load.Options{VarFiles: []string{"../lab/" + name + ".yaml"}}
}

// runPlan runs a plan, gives its events, and takes away its releases and the namespaces that it
// makes at the end of the test.
func runPlan(t *testing.T, lab *labtest.Lab, file string, in load.Options, namespaces ...string) []runner.Event {
	t.Helper()
	p, err := load.File(file, in)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range slices.Backward(p.Steps) {
			if s.Helm != nil {
				uninstall(t, lab, s.ReleaseName(), s.Helm.Namespace)
			}
		}
		gone(t, lab, namespaces...)
	})
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()

	var events recorder
	r := runner.Runner{Resolve: s.Resolve, Guards: s.Guards, Observers: []runner.Observer{&events}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*patience, errors.New("the example takes too long"))
	defer cancel()
	x, err := r.Run(ctx, p)

	require.NoError(t, err)
	require.Len(t, x.Steps(), len(p.Steps))
	for i, step := range x.Steps() {
		// A test that was killed leaves its releases: then they are unchanged.
		require.True(t, step.State.Good(), "%s: %s %s", step.Name, step.State, step.Error)
		if p.Steps[i].Helm != nil {
			require.Equal(t, 1, step.Attempt, step.Name)
			require.Equal(t, 1, step.Revision, step.Name)
		}
	}
	requireHealthy(t, lab, p, namespaces...)
	requireNothingToDo(t, s)
	requireNothingToDo(t, s, changeByHand(t, lab, p)...)
	return events
}

// recorder keeps the events of a run.
type recorder []runner.Event

// Observe implements runner.Observer.
func (r *recorder) Observe(e runner.Event) { *r = append(*r, e) }

// install installs one of the lab's charts by Helm, without waiting, and
// uninstalls it at the end of the test.
func install(t *testing.T, lab *labtest.Lab, chart, release, namespace string) {
	t.Helper()
	c, err := loader.Load("../lab/charts/" + chart)
	require.NoError(t, err)
	do := action.NewInstall(helmOf(t, lab, namespace))
	do.ReleaseName, do.Namespace, do.CreateNamespace = release, namespace, true
	t.Cleanup(func() { uninstall(t, lab, release, namespace) })
	_, err = do.RunWithContext(t.Context(), c, nil)
	require.NoError(t, err)
}

func uninstall(t *testing.T, lab *labtest.Lab, release, namespace string) {
	t.Helper()
	do := action.NewUninstall(helmOf(t, lab, namespace))
	do.IgnoreNotFound = true
	_, err := do.Run(release)
	assert.NoError(t, err, release)
}

// gone deletes namespaces and waits until they are gone, so that the next run
// finds a lab without them.
func gone(t *testing.T, lab *labtest.Lab, namespaces ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("what an example made is left behind"))
	defer cancel()
	all := lab.Clientset(t).CoreV1().Namespaces()
	for _, ns := range namespaces {
		err := all.Delete(ctx, ns, metav1.DeleteOptions{})
		assert.True(t, err == nil || apierrors.IsNotFound(err), "namespace %s: %v", ns, err)
	}
	for _, ns := range namespaces {
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := all.Get(ctx, ns, metav1.GetOptions{})
			require.True(c, apierrors.IsNotFound(err), "namespace %s: %v", ns, err)
		}, patience, interval)
	}
}
