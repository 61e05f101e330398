package load_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// Each case is a plan with files, and what is wrong in these.
func TestCheckFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/content/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			full, err := filepath.Abs(file)
			require.NoError(t, err)
			a, err := txtar.ParseFile(full)
			require.NoError(t, err)
			last := len(a.Files) - 1
			require.Equal(t, "diagnostics", a.Files[last].Name)
			t.Chdir(t.TempDir())
			require.NoError(t, txtar.Write(&txtar.Archive{Files: a.Files[:last]}, "."))
			p, err := load.File("plan.yaml", load.Options{})
			require.NoError(t, err)
			got := ""
			if err := load.CheckFiles(p); err != nil {
				require.IsType(t, document.Diagnostics{}, err)
				got = err.Error() + "\n"
			}
			if *update {
				a.Files[last].Data = []byte(got)
				require.NoError(t, os.WriteFile(full, txtar.Format(a), 0o644))
				return
			}
			require.Equal(t, string(a.Files[last].Data), got)
		})
	}
}

// Steps that name one file share its faults: it is read once. Ten thousand times
// this file would be 10 GiB.
func TestCheckFilesReadsAFileOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.yaml", []byte("# "+strings.Repeat("x", 1<<20)+"\nkind: [\n"), 0o600))
	var text strings.Builder
	text.WriteString("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: p}\nsteps:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "- {name: s%d, apply: {files: [a.yaml], namespace: n%d}}\n", i, i)
	}
	p, err := load.Parse("plan.yaml", []byte(text.String()), load.Options{})
	require.NoError(t, err)
	ds, ok := load.CheckFiles(p).(document.Diagnostics) //nolint:errorlint // it is documented to be one
	require.True(t, ok)
	require.Len(t, ds, 1)
}
