package steps_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// archive packs the chart of chartOf, and gives the file's path.
func archive(t *testing.T) string {
	t.Helper()
	ch, err := loader.Load(chartOf(t, nil))
	require.NoError(t, err)
	file, err := chartutil.Save(ch, t.TempDir())
	require.NoError(t, err)
	return file
}

// indexed is a folder with the archive of chartOf and the index of a repository.
func indexed(t *testing.T) string {
	t.Helper()
	dir := filepath.Dir(archive(t))
	index, err := repo.IndexDirectory(dir, "")
	require.NoError(t, err)
	require.NoError(t, index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600))
	return dir
}

// repository serves the chart of chartOf by HTTP, to alice with her password
// only. It gives the address, without them.
func repository(t *testing.T, password string) string {
	t.Helper()
	return guarded(t, http.FileServer(http.Dir(indexed(t))), guard{allows: func(req *http.Request) bool {
		_, given, _ := req.BasicAuth()
		return given == password
	}}).URL
}

// A chart comes from wherever Helm's may.
func TestHelmStepFindsItsChart(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	open, guarded := repository(t, ""), strings.Replace(repository(t, "hunter2"), "://", "://alice:hunter2@", 1)
	for name, chart := range map[string]string{
		"an archive":                       "chart: " + archive(t),
		"a repository, the newest version": "chart: settings, repo: '" + open + "'",
		"a repository, by a constraint":    "chart: settings, version: ~0.1, repo: '" + open + "'",
		"a repository with a password":     "chart: settings, repo: '" + guarded + "'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)

			out := runPlan(t, lab, ns, "\n- name: s\n  helm: {"+chart+", release: NS, namespace: NS}\n")

			require.NoError(t, out.err)
			require.Equal(t, "chart", settings(t, lab, ns)["from"])
			for _, e := range out.events {
				require.NotContains(t, e.Message, "hunter2")
			}
		})
	}
}

// A chart that is not to be had is said so, with what there is, and without
// passwords.
func TestHelmStepSaysWhyThereIsNoChart(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	address := repository(t, "hunter2")
	guarded := strings.Replace(address, "://", "://alice:hunter2@", 1)
	wrong := strings.Replace(address, "://", "://alice:swordfish@", 1)
	for name, tc := range map[string]struct {
		chart, text, hint string
		permanent         bool
	}{
		"a version that is not there": {"chart: settings, version: 9.9.9, repo: '" + guarded + "'", "there is no version 9.9.9", "there are: 0.1.0", true},
		"a chart that is not there":   {"chart: other, repo: '" + guarded + "'", "the repository has no such chart", "alice:xxxxx@", true},
		"a wrong password":            {"chart: settings, repo: '" + wrong + "'", "401 Unauthorized", "alice:xxxxx@", false},
		"nobody there":                {"chart: settings, repo: 'http://alice:swordfish@127.0.0.1:1'", "connection refused", "alice:xxxxx@", false},
		"no repository":               {"chart: settings, repo: '" + guarded + "/nowhere'", "404 Not Found", "alice:xxxxx@", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)

			out := runPlan(t, lab, ns, "\n- name: s\n  retry: {install_retries: 1}\n  helm: {"+tc.chart+", release: NS, namespace: NS}\n")

			require.ErrorContains(t, out.err, tc.text)
			require.Contains(t, runner.HintOf(out.err), tc.hint)
			require.Equal(t, tc.permanent, runner.IsPermanent(out.err))
			said := out.err.Error() + runner.HintOf(out.err)
			for _, e := range out.events {
				said += e.Message + e.Error + e.Hint
			}
			require.NotContains(t, said, "hunter2")
			require.NotContains(t, said, "swordfish")
		})
	}
}

// The lab's registry serves its charts, without TLS.
func TestHelmStepTakesAChartOfARegistry(t *testing.T) {
	t.Parallel()
	lab, registry := labtest.ControlPlane(t), labtest.Registry(t)
	step := func(ns, version string) *run {
		// Nothing guarded and nothing to wait for: this lab has no node for the operator.
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 3m\n  helm: {chart: 'oci://"+registry+"/charts/guarded', version: '"+version+
			"', plain_http: true, release: NS, namespace: NS, wait: none, values: {gadgets: 0, widgets: 0}}\n")
	}

	ns := lab.Namespace(t)
	require.NoError(t, step(ns, ">=0.1.0").err)
	last, err := helmOf(t, lab, ns).Releases.Last(ns)
	require.NoError(t, err)
	require.Equal(t, "guarded", last.Chart.Metadata.Name)

	absent := step(lab.Namespace(t), "9.9.9").err
	require.ErrorContains(t, absent, "there is no version 9.9.9")
	require.Contains(t, runner.HintOf(absent), "there are: "+last.Chart.Metadata.Version)
	require.True(t, runner.IsPermanent(absent))
}

// A repository that accepts and never answers ends with the step, and leaves
// nothing behind.
func TestHelmStepGivesUpOnASilentRepository(t *testing.T) {
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("HOME", "/proc/nowhere") // nothing is written there either
	t.Setenv("XDG_CACHE_HOME", "")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	for name, chart := range map[string]string{
		"a repository": "chart: settings, repo: 'http://" + listener.Addr().String() + "'",
		"a registry":   "chart: 'oci://" + listener.Addr().String() + "/charts/settings', plain_http: true",
	} {
		t.Run(name, func(t *testing.T) {
			out := runPlan(t, lab, ns, "\n- name: s\n  timeout: 1s\n  helm: {"+chart+", release: NS, namespace: NS}\n")

			var timeout *runner.TimeoutError
			require.ErrorAs(t, out.err, &timeout)
			step := out.execution.Step("s")
			require.Less(t, step.Ended.Sub(step.Started), 10*time.Second)
			left, err := filepath.Glob(filepath.Join(temp, "kplan-chart-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// Neither values that a chart's schema refuses nor the data of a Secret that
// the API server refuses are told; where and why is.
func TestHelmStepKeepsValuesToItself(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	schema := `{"properties": {"password": {"type": "string", "pattern": "^[a-z]+$"}}}`
	secret := map[string]string{"secret.yaml": `{apiVersion: v1, kind: Secret, type: "kubernetes.io/dockerconfigjson",
  metadata: {name: s}, stringData: {".dockerconfigjson": {{ .Values.password }}, plain: {{ .Values.password }}}}`}
	for name, tc := range map[string]struct {
		values string
		says   []string
	}{
		"the chart's schema": {"{password: Hunter2it}", []string{"password: the value does not match pattern '^[a-z]+$'"}},
		"the API server":     {"{password: hunterit}", []string{`Secret "s" is invalid`, "data[.dockerconfigjson]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			dir := chartOf(t, secret)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "values.schema.json"), []byte(schema), 0o600))

			out := runPlan(t, lab, ns, "\n- name: s\n  retry: {install_retries: 3}\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: "+tc.values+"}\n")

			said := out.err.Error() + runner.HintOf(out.err)
			for _, e := range out.events {
				said += e.Message + e.Error + e.Hint
			}
			for _, s := range tc.says {
				require.Contains(t, said, s)
			}
			require.NotContains(t, strings.ToLower(said), "hunter")
			require.Equal(t, 1, out.execution.Step("s").Attempt, "another attempt cannot mend it")
		})
	}
}
