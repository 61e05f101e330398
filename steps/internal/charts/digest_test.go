package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// loaded is the chart of files, given by name. The loader takes subcharts from a
// map, so that their order is another one each time.
func loaded(t *testing.T, files map[string]string) *engine.Chart {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ch, err := EngineOf(plan.Helm{}).Load(dir)
	require.NoError(t, err)
	return ch
}

// nested is a chart with five subcharts, the first of which has five more.
func nested() map[string]string {
	files := map[string]string{"Chart.yaml": "{apiVersion: v2, name: top, version: 0.1.0}", "values.yaml": "a: 1", "templates/a.yaml": "a: b"}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, at := range []string{"charts/" + name, "charts/a/charts/" + name} {
			files[at+"/Chart.yaml"] = "{apiVersion: v2, name: " + name + ", version: 0.1.0}"
			files[at+"/templates/x.yaml"] = "at: " + at
		}
	}
	return files
}

// The digest of a chart is the same whatever the order of its files and
// subcharts is, and another one when anything in them changes.
func TestDigest(t *testing.T) {
	want := Digest(loaded(t, nested()))
	for range 20 {
		require.Equal(t, want, Digest(loaded(t, nested())))
	}
	for _, name := range slices.Sorted(maps.Keys(nested())) {
		changed := nested()
		changed[name] += " # changed"
		require.NotEqual(t, want, Digest(loaded(t, changed)), name)
	}
	for name, move := range map[string][2]string{
		"a file to another name":         {"templates/a.yaml", "templates/z.yaml"},
		"a template to another subchart": {"charts/b/templates/x.yaml", "charts/c/templates/y.yaml"},
		"a template to the parent":       {"charts/b/templates/x.yaml", "templates/x.yaml"},
	} {
		changed := nested()
		changed[move[1]] = changed[move[0]]
		delete(changed, move[0])
		require.NotEqual(t, want, Digest(loaded(t, changed)), name)
	}
}

// packed is the archive of a chart with one template, with a time in it.
func packed(t *testing.T, template string, at time.Time) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tape := tar.NewWriter(zip)
	for _, f := range [][2]string{{"sub/Chart.yaml", "{apiVersion: v2, name: sub, version: 0.1.0}"}, {"sub/templates/x.yaml", template}} {
		require.NoError(t, tape.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0], Mode: 0o644, Size: int64(len(f[1])), ModTime: at}))
		_, err := tape.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, tape.Close())
	require.NoError(t, zip.Close())
	return out.String()
}

// A subchart that is packed anew, as "helm dependency build" does with those of
// folders, is the same chart.
func TestDigestOfPackedSubcharts(t *testing.T) {
	of := func(archive string) string {
		return Digest(loaded(t, map[string]string{"Chart.yaml": "{apiVersion: v2, name: top, version: 0.1.0}", "charts/sub-0.1.0.tgz": archive}))
	}
	now := time.Now()
	old, again := packed(t, "a: b", now), packed(t, "a: b", now.Add(-time.Hour))
	require.NotEqual(t, old, again)
	require.Equal(t, of(old), of(again))
	require.NotEqual(t, of(old), of(packed(t, "a: c", now)))
}
