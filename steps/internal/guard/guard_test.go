package guard_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/analyze"
)

var update = flag.Bool("update", false, "write the expected guards anew")

// Each case is a plan with its files, and what guards what in it.
func TestGuards(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, txtar.Write(a, dir))
			p, err := load.File(filepath.Join(dir, "plan.yaml"), load.Options{})
			require.NoError(t, err)

			var text strings.Builder
			guards, err := analyze.Guards(t.Context(), p, nil)
			for _, g := range guards {
				text.WriteString(g.Step + ": " + g.String() + "\n")
			}
			if err != nil {
				text.WriteString("problem: " + strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")
			}

			last := &a.Files[len(a.Files)-1]
			require.Equal(t, "guards", last.Name)
			if *update {
				last.Data = []byte(text.String())
				require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o644))
				return
			}
			require.Equal(t, string(last.Data), text.String())
		})
	}
}
