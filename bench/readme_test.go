package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the table of README.md with what a benchmark measures")

// begin and end are the lines between which a table stands.
func begin(table string) string { return "<!-- " + table + ": begin -->\n" }
func end(table string) string   { return "<!-- " + table + ": end -->\n" }

// rewrite puts text between the marks of a table in a file.
func rewrite(file, table, text string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), begin(table))
	_, tail, closed := strings.Cut(rest, end(table))
	if !ok || !closed {
		return fmt.Errorf("%s has no line %q with %q after it", file, strings.TrimSpace(begin(table)), strings.TrimSpace(end(table)))
	}
	return os.WriteFile(file, []byte(head+begin(table)+"\n"+text+"\n"+end(table)+tail), 0o644)
}

func TestRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	before, after := "before\n"+begin("other")+"kept\n"+end("other"), "after\n"
	require.NoError(t, os.WriteFile(file, []byte(before+begin("t")+"old\n"+end("t")+after), 0o600))

	require.NoError(t, rewrite(file, "t", "new\n"))
	require.NoError(t, rewrite(file, "t", "newer\n"))

	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, before+begin("t")+"\nnewer\n\n"+end("t")+after, string(b))

	require.NoError(t, os.WriteFile(file, []byte("no marks"), 0o600))
	require.ErrorContains(t, rewrite(file, "t", "new\n"), "has no line")
}

// A page must have a place for each table.
func TestPagesHaveMarks(t *testing.T) {
	for file, tables := range map[string][]string{"README.md": {"figures", "phases", "helm"}, comparison: {"race", "helm"}} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, table := range tables {
			require.Equal(t, 1, strings.Count(string(b), begin(table)))
			require.Equal(t, 1, strings.Count(string(b), end(table)))
		}
	}
}

// The comparison has the table of the README.
func TestTheComparisonIsOfTheREADME(t *testing.T) {
	table := func(file string) string {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(b), begin("helm"))
		text, _, _ := strings.Cut(rest, end("helm"))
		return text
	}
	require.Equal(t, table("README.md"), table(comparison))
}
