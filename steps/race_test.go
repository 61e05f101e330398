package steps_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// The race is real: Helm by itself sends the guarded objects before the
// operator of the same chart answers, and fails.
func TestPlainHelmLosesTheRace(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	config := helmOf(t, lab, lab.Namespace(t))
	cleanUp(t, lab, config.namespace)
	ch, err := loader.Load(filepath.Join(labtest.Charts(), "race"))
	require.NoError(t, err)

	install := action.NewInstall(config.Configuration)
	install.ReleaseName, install.Namespace = config.namespace, config.namespace
	rel, err := install.Run(ch, map[string]any{"listenDelay": "5s"})

	require.ErrorContains(t, err, "failed calling webhook")
	require.Equal(t, release.StatusFailed, rel.Info.Status)
}

// kplan installs the same chart in one attempt, as revision 1, and tells which
// webhook held its requests.
func TestHoldWinsTheRace(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	onEngines(t, func(t *testing.T, engine string) {
		t.Helper()
		ns := lab.Namespace(t)

		run := installBy(t, lab, ns, engine, "{listenDelay: 5s}")

		require.NoError(t, run.err)
		step := run.execution.Step("race")
		require.Equal(t, runner.StateSucceeded, step.State)
		require.Equal(t, 1, step.Attempt)
		require.Equal(t, 1, step.Revision)
		held := run.of(runner.TypeHeld)
		require.NotEmpty(t, held, "requests were held")
		require.Equal(t, ns+"/"+ns+"-webhook", held[0].Webhook.Service)
		require.Regexp(t, "^(Gadget|Widget)/"+ns+"/"+ns+"-", held[0].Object) // Helm 4 sends the configuration before both
		for _, e := range run.of(runner.TypeReleased) {
			require.Empty(t, e.Error)
			require.Positive(t, e.Webhook.HeldSeconds)
		}
		rel, err := helmOf(t, lab, ns).Releases.Last(ns)
		require.NoError(t, err)
		require.Equal(t, 1, rel.Version)
		require.Equal(t, release.StatusDeployed, rel.Info.Status)

		t.Run("and leaves it alone when nothing changed", func(t *testing.T) {
			again := installBy(t, lab, ns, engine, "{listenDelay: 5s}")
			require.NoError(t, again.err)
			require.Equal(t, runner.StateUnchanged, again.execution.Step("race").State)
			require.Equal(t, 1, again.execution.Step("race").Revision)
		})
	})
}

// A webhook that never comes ends the step within its bound, and the error says
// which one.
func TestHoldIsBounded(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)

	run := install(t, lab, lab.Namespace(t), "{listenDelay: 10m}", "webhooks: {hold_timeout: 15s}")

	var timeout *runner.TimeoutError
	require.ErrorAs(t, run.err, &timeout)
	require.ErrorContains(t, run.err, "race.lab.kplan.dev")
	require.ErrorContains(t, run.err, "connection refused")
	require.NotEmpty(t, runner.HintOf(run.err))
}

// A run that goes on after one that ended too early sends what that one sent: a
// new render would bring a new certificate, which the running operator does not have.
func TestAnInterruptedInstallGoesOn(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	onEngines(t, func(t *testing.T, engine string) {
		t.Helper()
		ns := lab.Namespace(t)
		values := "{listenDelay: 6s}"

		first := installBy(t, lab, ns, engine, values, "webhooks: {hold_timeout: 2s}")
		require.Error(t, first.err)
		second := installBy(t, lab, ns, engine, values, "timeout: 3m")

		require.NoError(t, second.err)
		require.Equal(t, 2, second.execution.Step("race").Revision)
		for _, e := range second.of(runner.TypeHeld) {
			require.NotContains(t, e.Webhook.Cause, "x509")
		}
	})
}

// What a run did.
type run struct {
	execution *runner.Execution
	err       error
	events    []runner.Event
}

func (r *run) Observe(e runner.Event) { r.events = append(r.events, e) }

func (r *run) of(t runner.Type) []runner.Event {
	var out []runner.Event
	for _, e := range r.events {
		if e.Type == t {
			out = append(out, e)
		}
	}
	return out
}

// cleanUp removes what the race chart puts outside of its namespace; releases
// are named after it, so that tests can run side by side.
func cleanUp(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	api := lab.Clientset(t).AdmissionregistrationV1()
	t.Cleanup(func() {
		ctx := context.Background()
		_ = api.ValidatingWebhookConfigurations().Delete(ctx, ns+"-validate", metav1.DeleteOptions{})
		_ = api.MutatingWebhookConfigurations().Delete(ctx, ns+"-mutate", metav1.DeleteOptions{})
	})
}

// install runs a plan of one helm step, named race, with the lab's race chart.
func install(t *testing.T, lab *labtest.Lab, ns, values string, fields ...string) *run {
	t.Helper()
	return installBy(t, lab, ns, "helm3", values, fields...)
}

// installBy is install with a version of Helm.
func installBy(t *testing.T, lab *labtest.Lab, ns, engine, values string, fields ...string) *run {
	t.Helper()
	text := "\n- name: race\n"
	for _, f := range fields {
		text += "  " + f + "\n"
	}
	return runPlan(t, lab, ns, text+"  helm: {chart: CHARTS/race, release: NS, namespace: NS, engine: "+engine+", values: "+values+"}\n")
}

// runPlan runs the steps of a plan; NS and CHARTS in them stand for the test's
// namespace and the folder of the lab's charts.
func runPlan(t *testing.T, lab *labtest.Lab, ns, list string, watch ...runner.Observer) *run {
	t.Helper()
	return runSteps(t, lab, ns, list, steps.Config{}, watch...)
}

// runSteps is runPlan with what else a run can be told; it may be the plan, too.
func runSteps(t *testing.T, lab *labtest.Lab, ns, list string, c steps.Config, watch ...runner.Observer) *run {
	t.Helper()
	if c.Plan == nil {
		c.Plan = planOf(t, lab, ns, list)
	}
	p := c.Plan
	c.Flags, c.UserAgent = lab.Flags(), "kplan-test"
	s, err := steps.New(t.Context(), c)
	require.NoError(t, err)
	defer s.Close()
	out := &run{}
	r := &runner.Runner{Resolve: s.Resolve, ReadInputs: s.ReadInputs, Redact: p.Sensitive.Text, Observers: append(watch, out)}
	out.execution, out.err = r.Run(t.Context(), p)
	return out
}

// planOf is a plan with a list of steps in which NS and CHARTS are replaced.
func planOf(t *testing.T, lab *labtest.Lab, ns, list string) *plan.Plan {
	t.Helper()
	cleanUp(t, lab, ns)
	text := "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: test}\nsteps:" + list
	text = strings.NewReplacer("CHARTS", labtest.Charts(), "NS", ns).Replace(text)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	p, err := load.File(file, load.Options{})
	require.NoError(t, err)
	return p
}

// helmConfig is Helm as its own command sets it up: no hold, no kplan.
type helmConfig struct {
	*action.Configuration
	namespace string
}

// helmInit guards Helm's set-up, which writes package variables.
var helmInit sync.Mutex

func helmOf(t *testing.T, lab *labtest.Lab, ns string) helmConfig {
	t.Helper()
	helmInit.Lock()
	defer helmInit.Unlock()
	flags := lab.Flags()
	flags.Namespace = &ns
	config := new(action.Configuration)
	require.NoError(t, config.Init(flags, ns, "secret", func(string, ...any) {}))
	return helmConfig{config, ns}
}
