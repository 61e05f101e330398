package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	namedPath   = regexp.MustCompile("`((?:bench|cmd|docs|doctor|examples|fleet|foreign|internal|lab|plan|runner|schema|source|steps|webhook)/[\\w./*-]*)`")
	packageLine = regexp.MustCompile("^\\*\\*`([\\w./-]+/)`\\*\\*")
	fileLine    = regexp.MustCompile("^- `([\\w./-]+)`:")
)

// Every file that docs/explanation/architecture.md names exists, and every file of Go code stands
// in it, with what is in it.
func TestArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
	b, err := os.ReadFile(filepath.Join(root, "docs", "explanation", "architecture.md"))
	require.NoError(t, err)
	for _, m := range namedPath.FindAllStringSubmatch(string(b), -1) {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(m[1])))
		require.NoError(t, err)
		assert.NotEmpty(t, found, "docs/explanation/architecture.md names %s, which does not exist", m[1])
	}

	var told []string
	dir := ""
	for line := range strings.Lines(string(b)) {
		if m := packageLine.FindStringSubmatch(line); m != nil {
			dir = m[1]
		} else if m := fileLine.FindStringSubmatch(line); m != nil && strings.HasSuffix(m[1], ".go") {
			told = append(told, dir+m[1])
		}
	}
	assert.ElementsMatch(t, sources(t, root), told)
}

// sources are the files of Go code that are no tests.
func sources(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, floor := range []string{"bench", "cmd", "doctor", "fleet", "foreign", "internal", "lab", "ledger", "plan", "runner", "schema", "source", "steps", "tools", "webhook"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, floor), func(file string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, file)
			all = append(all, filepath.ToSlash(name))
			return err
		}))
	}
	return slices.DeleteFunc(all, func(file string) bool { return strings.Contains(file, "/testdata/") })
}
