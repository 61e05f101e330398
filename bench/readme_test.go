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

// The table stands between these lines.
const (
	begin = "<!-- figures: begin -->\n"
	end   = "<!-- figures: end -->\n"
)

// rewrite puts text between the marks of a file.
func rewrite(file, text string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no line %q with %q after it", file, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(head+begin+"\n"+text+"\n"+end+tail), 0o644)
}

func TestRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600))

	require.NoError(t, rewrite(file, "new\n"))
	require.NoError(t, rewrite(file, "newer\n"))

	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n"+begin+"\nnewer\n\n"+end+"after\n", string(b))

	require.NoError(t, os.WriteFile(file, []byte("no marks"), 0o600))
	require.ErrorContains(t, rewrite(file, "new\n"), "has no line")
}

// The README must have a place for the table.
func TestREADMEHasMarks(t *testing.T) {
	b, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(b), begin))
	require.Equal(t, 1, strings.Count(string(b), end))
}
