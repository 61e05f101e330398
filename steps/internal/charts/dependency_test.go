package charts_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
)

// write makes files below a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
}

// configMap is a template that renders one object.
func configMap(name string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "-{{ .Chart.Version }}}}"
}

// repository serves the chart dep in several versions.
func repository(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range versions {
		_, err := chartutil.Save(&helmchart.Chart{
			Metadata:  &helmchart.Metadata{APIVersion: helmchart.APIVersionV2, Name: "dep", Version: v},
			Templates: []*helmchart.File{{Name: "templates/m.yaml", Data: []byte(configMap("dep"))}},
		}, dir)
		require.NoError(t, err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	index, err := repo.IndexDirectory(dir, "")
	require.NoError(t, err)
	require.NoError(t, index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600))
	return server.URL
}

// names renders the chart of a folder, and returns the names of its objects. Nothing
// may be written there.
func names(t *testing.T, dir string) ([]string, error) {
	t.Helper()
	before := listing(t, dir)
	c, err := charts.New(plan.Step{Name: "s", Helm: &plan.Helm{Chart: filepath.Join(dir, "top")}}, "default", store(t))
	require.NoError(t, err)
	objects, err := c.Render(t.Context(), charts.Capabilities{})
	var all []string
	for _, o := range objects {
		all = append(all, o.GetName())
	}
	require.Equal(t, before, listing(t, dir))
	return all, err
}

func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}

// Charts beside a chart's folder that it depends on are rendered with it, with those that
// they depend on themselves, from folders and repositories.
func TestDependencies(t *testing.T) {
	from, dir := repository(t, "1.0.0", "1.5.0", "2.0.0"), t.TempDir()
	write(t, dir, map[string]string{
		"top/Chart.yaml":            "{apiVersion: v2, name: top, version: 0.1.0, dependencies: [{name: sub, version: ^0.2, repository: file://../sub}, {name: sub, alias: again, version: ^0.2, repository: file://../sub}]}",
		"top/templates/m.yaml":      configMap("top"),
		"sub/Chart.yaml":            "{apiVersion: v2, name: sub, version: 0.2.3, dependencies: [{name: leaf, version: 0.x, repository: file://../lib/leaf}, {name: dep, version: ^1, repository: \"" + from + "/\"}]}",
		"sub/templates/m.yaml":      "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Chart.Name }}}}",
		"lib/leaf/Chart.yaml":       "{apiVersion: v2, name: leaf, version: 0.3.0}",
		"lib/leaf/templates/m.y":    "not a template: {{",
		"lib/leaf/.helmignore":      "*.y\n",
		"lib/leaf/templates/m.yaml": configMap("leaf"),
	})
	got, err := names(t, dir)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"top-0.1.0", "sub", "leaf-0.3.0", "dep-1.5.0", "again", "leaf-0.3.0", "dep-1.5.0"}, got)
}

// Chart.lock says which version is meant, and must be of the dependencies.
func TestDependenciesByLock(t *testing.T) {
	from, dir := repository(t, "1.0.0", "1.5.0"), t.TempDir()
	chart := "{apiVersion: v2, name: top, version: 0.1.0, dependencies: [{name: dep, version: ^1, repository: \"" + from + "\"}]}"
	write(t, dir, map[string]string{
		"top/Chart.yaml": chart,
		"top/Chart.lock": "dependencies: [{name: dep, version: 1.0.0, repository: \"" + from + "\"}]\ngenerated: \"2026-01-01T00:00:00Z\"\n",
	})
	got, err := names(t, dir)
	require.NoError(t, err)
	require.Equal(t, []string{"dep-1.0.0"}, got)

	write(t, dir, map[string]string{"top/Chart.lock": "dependencies: [{name: dep, version: 1.0.0, repository: \"" + from + "\"}]\ndigest: sha256:0000\ngenerated: \"2026-01-01T00:00:00Z\"\n"})
	_, err = names(t, dir)
	require.ErrorContains(t, err, "Chart.lock is not of the dependencies in Chart.yaml")
	require.Contains(t, runner.HintOf(err), "helm dependency update")
}

// What a dependency lacks is told, with the way out.
func TestMissingDependencies(t *testing.T) {
	from := repository(t, "1.0.0")
	for name, c := range map[string]struct{ dependency, want, hint string }{
		"of a repository that lacks it": {"{name: none, version: 1.0.0, repository: \"" + from + "\"}", "the repository has no such chart", "helm show chart none"},
		"of no version":                 {"{name: dep, version: ^3, repository: \"" + from + "\"}", "there is no version ^3", "there are: 1.0.0"},
		"nowhere":                       {"{name: dep, version: ^3}", "missing in charts/ directory: dep", "helm dependency build"},
		"no folder":                     {"{name: dep, version: 1.0.0, repository: file://../none}", "reading file://../none", "helm dependency build"},
		"another version":               {"{name: sub, version: ^2, repository: file://../sub}", "its version is 0.2.0, wanted is ^2", "helm dependency build"},
		"another chart":                 {"{name: dep, version: 0.2.0, repository: file://../sub}", "the chart at file://../sub is sub", "helm dependency build"},
		"itself":                        {"{name: top, version: 0.1.0, repository: file://../top}", "chart top depends on itself", "helm dependency build"},
		"an unknown name":               {"{name: dep, version: 1.0.0, repository: \"@nobody-has-this\"}", `there is no repository "nobody-has-this"`, "helm repo add"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{
				"top/Chart.yaml": "{apiVersion: v2, name: top, version: 0.1.0, dependencies: [" + c.dependency + "]}",
				"sub/Chart.yaml": "{apiVersion: v2, name: sub, version: 0.2.0}",
			})
			_, err := names(t, dir)
			require.ErrorContains(t, err, c.want)
			require.Contains(t, runner.HintOf(err), c.hint)
		})
	}
}
