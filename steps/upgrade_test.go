package steps_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		held          bool // for sure
	}{
		"a new CA, and a pod that starts anew": {
			before: "{listenDelay: 0s, strategy: Recreate, guarded: {alerts: 3, gadgets: 3, widgets: 3}}",
			after:  "{listenDelay: 2s, strategy: Recreate, guarded: {alerts: 3, gadgets: 3, widgets: 3, level: 1}}",
			held:   true,
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
			held: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			first := install(t, lab, ns, tc.before, "timeout: 2m")
			require.NoError(t, first.err)

			second := install(t, lab, ns, tc.after, "timeout: 1m30s")

			upgradedOnce(t, lab, ns, second)
			if tc.held {
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
	all, err := helmOf(t, lab, ns).Releases.History(ns)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, r := range all {
		want := release.StatusDeployed
		if r.Version == 1 {
			want = release.StatusSuperseded
		}
		require.Equal(t, want, r.Info.Status, "revision %d", r.Version)
	}
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	alert, err := client.Resource(alerts).Namespace(ns).Get(t.Context(), ns+"-0", metav1.GetOptions{})
	require.NoError(t, err)
	level, _, err := unstructured.NestedInt64(alert.Object, "spec", "level")
	require.NoError(t, err)
	require.EqualValues(t, 1, level, "the last revision's")
}

var alerts = schema.GroupVersionResource{Group: "lab.kplan.dev", Version: "v1", Resource: "alerts"}

// remove deletes the operator's Deployment, and waits until its pod is gone, or
// its webhook's Service.
func remove(t *testing.T, lab *labtest.Lab, ns, kind string) {
	t.Helper()
	set := lab.Clientset(t)
	if kind == "service" {
		require.NoError(t, set.CoreV1().Services(ns).Delete(t.Context(), ns+"-webhook", metav1.DeleteOptions{}))
		return
	}
	require.NoError(t, set.AppsV1().Deployments(ns).Delete(t.Context(), ns, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		pods, err := set.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0
	}, time.Minute, 50*time.Millisecond, "the operator's pod stays")
}
