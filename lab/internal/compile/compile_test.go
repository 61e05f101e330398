package compile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree writes a module of three packages and returns its program.
func tree(t *testing.T) Program {
	t.Helper()
	dir := t.TempDir()
	mark := filepath.Base(filepath.Dir(dir)) + filepath.Base(dir) // packages that no cache has
	for name, text := range map[string]string{
		"go.mod":    "module example.com/hello\n\ngo 1.26\n",
		"a/a.go":    "package a\n\nconst Name = \"" + mark + "\"\n",
		"b/b.go":    "package b\n\nimport \"example.com/hello/a\"\n\nconst Name = a.Name\n",
		"main.go":   "package main\n\nimport \"example.com/hello/b\"\n\nfunc main() { println(b.Name) }\n",
		"broken.go": "//go:build broken\n\npackage main\n\nvar x = nowhere\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return Program{Name: "hello", Dir: dir, Package: ".", Output: filepath.Join(dir, "hello"), Env: []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}}
}

func TestRun(t *testing.T) {
	p := tree(t)
	var said []string
	say := func(line string) { said = append(said, line) }

	require.NoError(t, p.Run(t.Context(), say))
	require.FileExists(t, p.Output)
	require.Equal(t, "building hello", said[0])
	require.Contains(t, said[len(said)-1], "built hello in ")

	p.Flags = []string{"-tags", "broken"}
	var fault *Error
	require.ErrorAs(t, p.Run(t.Context(), say), &fault)
	require.Contains(t, fault.Output, "undefined: nowhere")
	require.NotContains(t, fault.Output, "example.com/hello/a\n", "packages are no faults")
}

// Go itself says which packages are to be compiled, before and after.
func TestCount(t *testing.T) {
	p := tree(t)
	before, after := &count{packages: map[string]bool{}}, &count{packages: map[string]bool{}}
	p.list(t.Context(), "go", before)
	require.True(t, before.listed)
	require.Contains(t, before.packages, "example.com/hello/a")
	require.Contains(t, before.packages, "example.com/hello")
	all := len(before.packages)

	require.NoError(t, p.build(t.Context(), "go", before))
	require.Len(t, before.packages, all, "all that were compiled had been expected")
	require.Equal(t, all, before.begun)
	require.Contains(t, before.progress(time.Minute), "packages compiled after 1m0s, linking")

	p.list(t.Context(), "go", after)
	require.True(t, after.listed)
	require.Empty(t, after.packages, "all is in the cache")
}

func TestProgress(t *testing.T) {
	c := &count{packages: map[string]bool{}}
	c.line("go: downloading k8s.io/api v0.37.0")
	require.Equal(t, "1 module downloaded after 5s", c.progress(5*time.Second))
	c.line("example.com/one")
	require.Equal(t, "1 package compiled after 20s", c.progress(20*time.Second), "nobody knows of how many yet")
	c.expect([]string{"example.com/two", "example.com/three", "example.com/four"})
	require.Equal(t, "1 of 4 packages compiled after 20s", c.progress(20*time.Second))
	require.Equal(t, "1 of 4 packages compiled after 1m0s, about 3 minutes to go", c.progress(time.Minute))
	c.line("# example.com/two")
	c.line("./two.go:3:1: undefined: nowhere")
	require.Equal(t, "# example.com/two\n./two.go:3:1: undefined: nowhere\n", c.said())
}

func TestEstimate(t *testing.T) {
	require.Equal(t, "13 minutes on 2 cores, if nothing else uses them", Estimate(26*time.Minute, 2))
	require.Equal(t, "26 minutes on one core, if nothing else uses it", Estimate(26*time.Minute, 1))
	require.Equal(t, "a minute on 32 cores, if nothing else uses them", Estimate(32*time.Minute, 32))
	require.Equal(t, "30 seconds on 64 cores, if nothing else uses them", Estimate(30*time.Minute, 64))
}
