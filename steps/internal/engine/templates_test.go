package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/engine/helm3"
	"github.com/kplan-dev/kplan/steps/internal/engine/helm4"
)

// engines are those that charts are rendered by.
var engines = map[string]engine.Engine{"helm3": helm3.Engine{}, "helm4": helm4.Engine{}}

// render renders a chart of one template, which is a folder beside the file outside.txt.
func render(t *testing.T, e engine.Engine, template string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	chart := filepath.Join(dir, "chart")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "outside.txt"), []byte("outside"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(chart, "templates"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("apiVersion: v2\nname: chart\nversion: 1.0.0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(chart, "templates", "a.yaml"), []byte("value: '"+template+"'\n"), 0o600))
	c, err := e.Load(chart)
	require.NoError(t, err)
	rel, err := e.Render(t.Context(), c, map[string]any{}, engine.Render{Name: "a", Namespace: "b", KubeVersion: "v1.36.0"})
	if err != nil {
		return "", err
	}
	return rel.Manifest, nil
}

// TestTemplatesSeeNothingOfTheMachine has templates ask for what is on the machine that
// renders them: they have no function for it, or get nothing.
func TestTemplatesSeeNothingOfTheMachine(t *testing.T) {
	t.Setenv("SECRET", "hunter2")
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			for _, template := range []string{`{{ env "SECRET" }}`, `{{ expandenv "$SECRET" }}`} {
				_, err := render(t, e, template)
				require.ErrorContains(t, err, "not defined", template)
			}
			for _, template := range []string{
				`{{ getHostByName "localhost" }}`, // what a name server is asked tells it
				`{{ .Files.Get "../outside.txt" }}`,
				`{{ .Files.Get "/etc/hostname" }}`,
				`{{ range $path, $_ := .Files.Glob "../*" }}{{ $path }}{{ end }}`,
			} {
				out, err := render(t, e, template)
				require.NoError(t, err, template)
				require.Contains(t, out, "value: ''\n", template)
			}
		})
	}
}

// TestArchivesOfChartsStayWithin refuses archives of which a file would lead out of its
// chart, or takes the file to be within. Nothing is unpacked to a disk.
func TestArchivesOfChartsStayWithin(t *testing.T) {
	for _, path := range []string{"../out.yaml", "chart/../../out.yaml", "/etc/out.yaml", `chart\..\..\out.yaml`} {
		for name, e := range engines {
			t.Run(name+" "+path, func(t *testing.T) {
				c, err := e.LoadArchive(bytes.NewReader(packed(t, map[string]int{"chart/Chart.yaml": -1, path: 1})))
				if err != nil {
					return
				}
				for _, f := range c.Files {
					require.True(t, filepath.IsLocal(f.Name), f.Name)
				}
			})
		}
	}
}

// TestArchivesOfChartsAreBounded refuses archives that are much larger than they look.
func TestArchivesOfChartsAreBounded(t *testing.T) {
	bomb := packed(t, map[string]int{"chart/Chart.yaml": -1, "chart/files/zeros": 101 << 20})
	require.Less(t, len(bomb), 1<<20)
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			_, err := e.LoadArchive(bytes.NewReader(bomb))
			require.ErrorContains(t, err, "larger than")
		})
	}
}

// packed makes the archive of a chart: files of so many zeros; -1 is that of a Chart.yaml.
func packed(t *testing.T, files map[string]int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, size := range files {
		text := "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
		if size >= 0 {
			text = string(make([]byte, size))
		}
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o600}))
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}
