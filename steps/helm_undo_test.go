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
