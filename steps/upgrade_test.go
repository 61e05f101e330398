package steps_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// What comes later in Helm's order than an object that is held may be what the
// object's webhook needs: each chart here would wait for itself. Alerts and
// Gadgets come before the webhook configurations.
func TestAnUpgradeDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	for name, tc := range map[string]struct {
		before, after string
		down          bool // nobody answers when the upgrade begins
	}{
		"a new CA, and a pod that starts anew": {
			before: "{listenDelay: 0s, strategy: Recreate, guarded: {alerts: 3, gadgets: 3, widgets: 3}}",
			after:  "{listenDelay: 2s, strategy: Recreate, guarded: {alerts: 3, gadgets: 3, widgets: 3, level: 1}}",
			down:   true,
		},
		"a new CA, and a pod that reads its certificate anew": {
			before: "{listenDelay: 0s, operator: {cert: secret, certReload: true}, guarded: {alerts: 30, gadgets: 1, widgets: 1}}",
			after:  "{listenDelay: 0s, operator: {cert: secret, certReload: true}, guarded: {alerts: 30, gadgets: 1, widgets: 1, level: 1}}",
		},
		"the certificate of the webhook comes after what it guards": {
			before: "{listenDelay: 0s, strategy: Recreate, certificate: {mode: issued}, operator: {issueDelay: 0s}, " +
				"webhook: {resources: [alerts, gadgets, widgets]}, guarded: {alerts: 2, gadgets: 2, widgets: 2}}",
			after: "{listenDelay: 0s, strategy: Recreate, certificate: {mode: issued, round: b}, operator: {issueDelay: 1s}, " +
				"webhook: {resources: [alerts, gadgets, widgets]}, guarded: {alerts: 2, gadgets: 2, widgets: 2, level: 1}}",
			down: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			first := install(t, lab, ns, tc.before, "timeout: 2m")
			require.NoError(t, first.err)
			if tc.down {
				stop(t, lab, ns)
			}

			second := install(t, lab, ns, tc.after, "timeout: 1m30s")

			upgradedOnce(t, lab, ns, second)
			if tc.down {
				require.NotEmpty(t, second.of(runner.TypeHeld))
			}
		})
	}
}

// The operator behind a webhook comes after the ConfigMaps that the webhook
// guards: without it, an upgrade that brings it back would wait for itself.
func TestAnUpgradeBringsBackWhatItsWebhookNeeds(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	for _, kind := range []string{"deployment", "service"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			values := "{listenDelay: 0s, certificate: {keep: true}, webhook: {configMaps: true}, " +
				"guarded: {configMaps: 2, alerts: 2, gadgets: 0, widgets: 0, level: %d}}"
			require.NoError(t, install(t, lab, ns, fmt.Sprintf(values, 0), "timeout: 2m").err)
			remove(t, lab, ns, kind)

			second := install(t, lab, ns, fmt.Sprintf(values, 1), "timeout: 1m30s")

			upgradedOnce(t, lab, ns, second)
			require.NotEmpty(t, second.of(runner.TypeHeld))
		})
	}
}

// A Job after the install gives the webhook its CA: what is held for that is
// waited for after the hooks, and before the release is recorded as deployed.
func TestAnInstallDoesNotWaitForItsHooks(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	values := "{listenDelay: 1s, certificate: {mode: hook}, operator: {lyingHealth: true}, webhook: {mutating: false}, guarded: {gadgets: 1, widgets: 3}}"

	t.Run("and ends when the hook has run", func(t *testing.T) {
		t.Parallel()
		ns := lab.Namespace(t)

		run := install(t, lab, ns, values, "timeout: 1m30s")

		require.NoError(t, run.err)
		require.Equal(t, 1, run.execution.Step("race").Revision)
		require.Equal(t, 1, run.execution.Step("race").Attempt)
		require.NotEmpty(t, run.of(runner.TypeHeld))
		require.Equal(t, map[int]release.Status{1: release.StatusDeployed}, statuses(t, lab, ns))
	})

	t.Run("and fails when the webhook refuses what was left behind", func(t *testing.T) {
		t.Parallel()
		ns := lab.Namespace(t)
		refusing := strings.Replace(values, "lyingHealth: true", "lyingHealth: true, answer: deny", 1)

		run := install(t, lab, ns, refusing, "timeout: 1m30s")

		require.ErrorContains(t, run.err, "denied the request")
		require.ErrorContains(t, run.err, "Widget/"+ns)
		require.Equal(t, map[int]release.Status{1: release.StatusFailed}, statuses(t, lab, ns))
	})

	t.Run("and fails when the webhook does not come all the same", func(t *testing.T) {
		t.Parallel()
		ns := lab.Namespace(t)
		never := strings.Replace(values, "mutating: false", "mutating: false, service: nobody", 1)

		run := install(t, lab, ns, never, "webhooks: {hold_timeout: 20s}", "timeout: 1m30s")

		require.ErrorContains(t, run.err, `webhook "validate.race.lab.kplan.dev" (Service `+ns+`/nobody)`)
		require.Equal(t, map[int]release.Status{1: release.StatusFailed}, statuses(t, lab, ns))
	})
}

// An upgrade whose objects are held in vain leaves the revision before deployed,
// as Helm does with one that fails: when all else is done, and when Helm's own wait
// ends before.
func TestAnUpgradeInVainLeavesWhatWasDeployed(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	values := "{listenDelay: 0s, strategy: Recreate, certificate: {mode: hook}, operator: {%s}, webhook: {mutating: false%s}, guarded: {gadgets: 0, widgets: %d}}"
	for name, tc := range map[string]struct{ after, bounds, want string }{
		"all else is done":      {fmt.Sprintf(values, "lyingHealth: true", ", service: nobody", 2), "webhooks: {hold_timeout: 15s}", "/nobody)"},
		"nor is its Deployment": {fmt.Sprintf(values, "certDelay: 10m", "", 3), "timeout: 30s", "-webhook)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			require.NoError(t, install(t, lab, ns, fmt.Sprintf(values, "lyingHealth: true", "", 0), "timeout: 2m").err)
			stop(t, lab, ns) // on a busy machine it would judge the objects before it ends

			run := install(t, lab, ns, tc.after, tc.bounds)

			require.Regexp(t, `^step "race": timed out after \d+s waiting for webhook "validate.race.lab.kplan.dev" \(Service `+ns+"/.*"+tc.want[1:len(tc.want)-1], run.err.Error())
			require.Equal(t, map[int]release.Status{1: release.StatusDeployed, 2: release.StatusFailed}, statuses(t, lab, ns))
		})
	}
}

// upgradedOnce checks that a run made one new revision, of what the chart says.
func upgradedOnce(t *testing.T, lab *labtest.Lab, ns string, run *run) {
	t.Helper()
	require.NoError(t, run.err)
	step := run.execution.Step("race")
	require.Equal(t, runner.StateSucceeded, step.State)
	require.Equal(t, 1, step.Attempt)
	require.Equal(t, 2, step.Revision)
	for _, e := range run.of(runner.TypeReleased) {
		require.Empty(t, e.Error)
	}
	require.Equal(t, map[int]release.Status{1: release.StatusSuperseded, 2: release.StatusDeployed}, statuses(t, lab, ns))
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	alert, err := client.Resource(alerts).Namespace(ns).Get(t.Context(), ns+"-0", metav1.GetOptions{})
	require.NoError(t, err)
	level, _, err := unstructured.NestedInt64(alert.Object, "spec", "level")
	require.NoError(t, err)
	require.EqualValues(t, 1, level, "the last revision's")
}

var alerts = schema.GroupVersionResource{Group: "lab.kplan.dev", Version: "v1", Resource: "alerts"}

// remove deletes the operator's Deployment, or its webhook's Service.
func remove(t *testing.T, lab *labtest.Lab, ns, kind string) {
	t.Helper()
	set := lab.Clientset(t)
	stop(t, lab, ns)
	if kind == "service" {
		require.NoError(t, set.CoreV1().Services(ns).Delete(t.Context(), ns+"-webhook", metav1.DeleteOptions{}))
	} else {
		require.NoError(t, set.AppsV1().Deployments(ns).Delete(t.Context(), ns, metav1.DeleteOptions{}))
	}
}

// stop scales the operator to nothing, and waits until it is gone.
func stop(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	set := lab.Clientset(t)
	_, err := set.AppsV1().Deployments(ns).Patch(t.Context(), ns, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		pods, err := set.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "!" + batchv1.JobNameLabel}) // hooks' stay
		return err == nil && len(pods.Items) == 0
	}, time.Minute, 50*time.Millisecond, "the operator's pod stays")
}
