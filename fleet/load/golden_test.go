package load_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/document"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// TestGolden loads fleet.yaml of every archive in testdata, in a folder that holds the
// archive's other files. A fleet with faults must give exactly "diagnostics", a good one
// "fleet", as JSON, and for the clusters that it lists "clusters": the wave and the values of
// each, or why it has none.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			full, err := filepath.Abs(file)
			require.NoError(t, err)
			a, err := txtar.ParseFile(full)
			require.NoError(t, err)
			got, want := outputs(t, a), map[string]string{}
			var inputs []txtar.File
			for _, f := range a.Files {
				if isOutput(f.Name) {
					want[f.Name] = string(f.Data)
				} else {
					inputs = append(inputs, f)
				}
			}
			if !*update {
				require.Equal(t, want, got)
				return
			}
			a.Files = inputs
			for _, name := range []string{"diagnostics", "fleet", "clusters"} {
				if data, ok := got[name]; ok {
					a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(data)})
				}
			}
			require.NoError(t, os.WriteFile(full, txtar.Format(a), 0o644))
		})
	}
}

func isOutput(name string) bool {
	return name == "diagnostics" || name == "fleet" || name == "clusters"
}

// outputs runs one archive.
func outputs(t *testing.T, a *txtar.Archive) map[string]string {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, f := range a.Files {
		if !isOutput(f.Name) {
			require.NoError(t, os.MkdirAll(filepath.Dir(f.Name), 0o755))
			require.NoError(t, os.WriteFile(f.Name, f.Data, 0o600))
		}
	}
	f, err := load.File("fleet.yaml", load.Options{})
	if err != nil {
		require.IsType(t, document.Diagnostics{}, err)
		require.Nil(t, f)
		return map[string]string{"diagnostics": err.Error() + "\n"}
	}
	whole, err := json.MarshalIndent(f.Fleet, "", "  ")
	require.NoError(t, err)
	return map[string]string{"fleet": string(whole) + "\n", "clusters": clusters(t, f)}
}

// clusters writes what becomes of each cluster that the fleet lists.
func clusters(t *testing.T, f *load.Fleet) string {
	t.Helper()
	var b strings.Builder
	for _, l := range f.Listed() {
		b.WriteString(l.Cluster.Name + ": ")
		taken, err := f.Takes(l.Entry, l.Cluster)
		switch {
		case err != nil:
			b.WriteString("\n" + err.Error() + "\n")
			continue
		case !taken:
			b.WriteString("not taken\n")
			continue
		}
		wave, err := f.Wave(l.Cluster)
		if err != nil {
			b.WriteString("\n" + err.Error() + "\n")
			continue
		}
		vars, err := f.Vars(l.Cluster)
		if err != nil {
			b.WriteString(f.Waves[wave].Name + "\n" + err.Error() + "\n")
			continue
		}
		text, err := json.Marshal(vars)
		require.NoError(t, err)
		b.WriteString(f.Waves[wave].Name + " " + string(text) + "\n")
	}
	return b.String()
}
