package lint_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/analyze"
)

var update = flag.Bool("update", false, "write the goldens anew")

// Each case is a plan with its files and what the rules find in it. A case with a
// file "remedy" has also the files as that mends them, and why it mends no more.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			file, err := filepath.Abs(file)
			require.NoError(t, err)
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			got := look(t, a)
			if *update {
				a.Files = append(given(a), got...)
				require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o644))
				return
			}
			require.Equal(t, text(a.Files[len(given(a)):]), text(got))
		})
	}
}

// given are the files of a case that are not results.
func given(a *txtar.Archive) []txtar.File {
	for i, f := range a.Files {
		if f.Name == "findings" {
			return a.Files[:i]
		}
	}
	return a.Files
}

func text(files []txtar.File) string { return string(txtar.Format(&txtar.Archive{Files: files})) }

// look lints a case in a folder of its own.
func look(t *testing.T, a *txtar.Archive) []txtar.File {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, txtar.Write(&txtar.Archive{Files: given(a)}, "."))
	in, found := findings(t)
	results := []txtar.File{{Name: "findings", Data: lines(found)}}
	remedy, err := os.ReadFile("remedy")
	if err != nil {
		return results
	}
	edits, refusals := lint.Fix(in, found, lint.Remedy(strings.TrimSpace(string(remedy))))
	for _, f := range given(a) {
		if mended := lint.Edited(f.Name, f.Data, edits); string(mended) != string(f.Data) {
			require.NoError(t, os.WriteFile(f.Name, mended, 0o600))
			results = append(results, txtar.File{Name: "mended " + f.Name, Data: mended})
		}
	}
	var refused strings.Builder
	for _, r := range refusals {
		refused.WriteString(r.Pos.String() + ": " + r.Why.Error() + "\n")
	}
	if refused.Len() > 0 {
		results = append(results, txtar.File{Name: "refused", Data: []byte(refused.String())})
	}
	_, left := findings(t)
	return append(results, txtar.File{Name: "left", Data: lines(left)})
}

func findings(t *testing.T) (lint.Input, []finding.Finding) {
	t.Helper()
	p, err := load.File("plan.yaml", load.Options{})
	require.NoError(t, err)
	in, err := analyze.LintInput(t.Context(), p, nil, true)
	if err != nil {
		require.ErrorContains(t, err, "offline", "a chart of a test renders")
	}
	return in, lint.Run(in)
}

func lines(findings []finding.Finding) []byte {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String() + "\n")
	}
	return []byte(b.String())
}

// Every rule has a case that breaks it and one that does not, and says enough.
func TestEveryRuleIsTested(t *testing.T) {
	for _, r := range lint.Rules() {
		broken, err := os.ReadFile("testdata/" + r.ID + ".txtar")
		require.NoError(t, err)
		require.Contains(t, string(broken), "["+r.ID+"]")
		good, err := txtar.ParseFile("testdata/" + r.ID + "_ok.txtar")
		require.NoError(t, err)
		require.Empty(t, string(good.Files[len(good.Files)-1].Data), r.ID)
		require.Greater(t, len(r.Explanation), 150, r.ID)
		found, ok := lint.Find(r.ID)
		require.True(t, ok)
		require.Equal(t, r.Summary, found.Summary)
	}
}

// docs/reference/lint.md has the rules as they are.
func TestPage(t *testing.T) {
	const file, mark = "../../docs/reference/lint.md", "<!-- rules: written by go test ./plan/lint -update -->\n"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(page), mark)
	require.True(t, found)
	rules, err := os.ReadFile("rules.md")
	require.NoError(t, err)
	want := head + mark + "\n" + string(rules)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "stale: go test ./plan/lint -update")
}
