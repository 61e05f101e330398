package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	quotedPath = regexp.MustCompile("`([a-z][\\w./*]*)`")
	listItem   = regexp.MustCompile(`(?m)^- (?:.|\n  )*`)
)

// Every file that docs/architecture.md names exists, and every package stands in it.
func TestArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
	b, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	named := map[string]bool{}
	exists := func(name string) {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		if len(found) == 0 {
			t.Errorf("docs/architecture.md names %s, which does not exist", name)
		}
	}
	for _, m := range quotedPath.FindAllStringSubmatch(string(b), -1) {
		if strings.Contains(m[1], "/") {
			exists(m[1])
			named[path.Clean(m[1])] = true
		}
	}
	for _, item := range listItem.FindAllString(string(b), -1) {
		dir := ""
		for _, m := range quotedPath.FindAllStringSubmatch(item, -1) {
			switch {
			case strings.HasSuffix(m[1], "/"):
				dir = m[1]
			case strings.HasSuffix(m[1], ".go") && !strings.Contains(m[1], "/"):
				exists(dir + m[1])
			}
		}
	}
	for _, floor := range []string{"cmd", "internal", "plan", "runner", "schema", "steps", "webhook"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, floor), func(file string, e fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
				dir, err := filepath.Rel(root, filepath.Dir(file))
				require.NoError(t, err)
				if !named[filepath.ToSlash(dir)] {
					t.Errorf("docs/architecture.md does not name %s", dir)
				}
			}
			return err
		}))
	}
}
