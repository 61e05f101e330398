package steps_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// Of two runs that install the same release the one that comes too late leaves
// the other's alone.
func TestHelmStepUninstallsNothingOfAnotherRun(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	config := helmOf(t, lab, ns)
	var other sync.Once
	behind := faulty(t, lab, func(req *http.Request) int {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/"+ns+"/secrets") {
			other.Do(func() {
				_ = config.Releases.Create(&release.Release{Name: ns, Namespace: ns, Version: 1, Info: &release.Info{Status: release.StatusPendingInstall}})
			})
		}
		return 0
	})

	out := runPlan(t, behind, ns, "\n- name: s\n  helm: {chart: "+chartOf(t, nil)+", release: NS, namespace: NS, on_failure: uninstall}\n")

	require.ErrorContains(t, out.err, "already exists")
	require.NotContains(t, out.err.Error(), "uninstalling")
	require.Equal(t, map[int]release.Status{1: release.StatusPendingInstall}, statuses(t, lab, ns))
}

// A history that "helm uninstall --keep-history" kept outlives an attempt that
// fails, whether that recorded anything or not.
func TestHelmStepKeepsAHistory(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values, says string
		want         map[int]release.Status
	}{
		"before anything is recorded": {
			"{fail: true}", "as it was told",
			map[int]release.Status{1: release.StatusUninstalled},
		},
		"after": {
			"{broken: true}", "uninstalling the release, which was never deployed, succeeded",
			map[int]release.Status{1: release.StatusSuperseded, 2: release.StatusUninstalled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			parts := maps.Clone(brokenService)
			parts["fail.yaml"] = `{{ if .Values.fail }}{{ fail "as it was told" }}{{ end }}`
			dir := chartOf(t, parts)
			step := func(values string) error {
				return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, on_failure: uninstall, values: "+values+"}\n").err
			}
			require.NoError(t, step("{}"))
			u := action.NewUninstall(helmOf(t, lab, ns).Configuration)
			u.KeepHistory = true
			_, err := u.Run(ns)
			require.NoError(t, err)

			err = step(tc.values)

			require.ErrorContains(t, err, tc.says)
			require.Equal(t, tc.want, statuses(t, lab, ns))
			require.NoError(t, step("{}"), "and it can be installed")
		})
	}
}

// A rollback or an uninstall that fails at a hook leaves a release that the next
// run can work on, not one in the middle of something.
func TestHelmStepFailsToUndo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event, onFailure, says string
		deployed               bool
		want                   map[int]release.Status
	}{
		"before a rollback": {
			"pre-rollback", "rollback", "rolling back to revision 1 failed", true,
			map[int]release.Status{1: release.StatusDeployed, 2: release.StatusFailed, 3: release.StatusFailed},
		},
		"after a rollback": {
			"post-rollback", "rollback", "rolling back to revision 1 failed", true,
			map[int]release.Status{1: release.StatusDeployed, 2: release.StatusFailed, 3: release.StatusFailed},
		},
		"before an uninstall": {
			"pre-delete", "uninstall", "uninstalling the release, which was never deployed, failed", false,
			map[int]release.Status{1: release.StatusFailed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			parts := maps.Clone(brokenService)
			parts["hook.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: hook, annotations: {helm.sh/hook: " + tc.event + "}}\n" +
				"spec: {ports: [{port: 80}], type: ClusterIP, clusterIP: 300.0.0.2}\n"
			dir := chartOf(t, parts)
			step := func(values string) error {
				return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, on_failure: "+tc.onFailure+", values: "+values+"}\n").err
			}
			if tc.deployed {
				require.NoError(t, step("{}"))
			}

			err := step("{broken: true}")

			require.ErrorContains(t, err, "300.0.0.1")
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, "300.0.0.2")
			require.Equal(t, tc.want, statuses(t, lab, ns))
			require.NoError(t, step("{data: {is: mended}}"), "the next run can go on")
			require.Equal(t, "mended", settings(t, lab, ns)["is"])
		})
	}
}
