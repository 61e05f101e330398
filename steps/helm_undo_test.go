package steps_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// What another run recorded is left alone: the revision that came first, of two
// runs that install the same release, and one that went on from this attempt's.
func TestHelmStepUninstallsNothingOfAnotherRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// at tells whether a request is where the other run comes in.
		at     func(req *http.Request, failed bool) bool
		other  int
		values string
		says   string
		want   map[int]release.Status
	}{
		"it was first": {
			func(req *http.Request, _ bool) bool { return req.Method == http.MethodPost },
			1, "{}", "already exists",
			map[int]release.Status{1: release.StatusPendingInstall},
		},
		"it went on": {
			func(_ *http.Request, failed bool) bool { return failed },
			2, "{broken: true}", "300.0.0.1",
			map[int]release.Status{1: release.StatusFailed, 2: release.StatusPendingInstall},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			config := helmOf(t, lab, ns)
			var failed atomic.Bool
			var other sync.Once
			behind := faulty(t, lab, func(req *http.Request) int {
				if !strings.Contains(req.URL.Path, "/"+ns+"/secrets") {
					return 0
				}
				if tc.at(req, failed.Load()) {
					other.Do(func() {
						_ = config.Releases.Create(&release.Release{Name: ns, Namespace: ns, Version: tc.other, Info: &release.Info{Status: release.StatusPendingInstall}})
					})
				}
				if req.Method == http.MethodPut { // how the attempt ended is written
					failed.Store(true)
				}
				return 0
			})

			out := runPlan(t, behind, ns, "\n- name: s\n  helm: {chart: "+chartOf(t, brokenService)+", release: NS, namespace: NS, on_failure: uninstall, values: "+tc.values+"}\n")

			require.ErrorContains(t, out.err, tc.says)
			require.NotContains(t, out.err.Error(), "uninstalling")
			require.Equal(t, tc.want, statuses(t, lab, ns))
		})
	}
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
