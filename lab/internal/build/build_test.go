package build

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes a small module and returns a builder and its program.
func tree(t *testing.T) (*Builder, Program, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/hello\n\ngo 1.26\n")
	write(t, dir, "main.go", "package main\n\nvar version string\n\nfunc main() { println(version) }\n")
	progress := &bytes.Buffer{}
	program := Program{Name: "hello", Package: ".", Sources: []string{"."}, Flags: "-X main.version=one"}
	return &Builder{Source: dir, Cache: t.TempDir(), Progress: progress}, program, progress
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// A program is built once; only a change of what decides it builds it anew.
func TestPath(t *testing.T) {
	builder, program, progress := tree(t)
	first, err := builder.Path(t.Context(), program)
	require.NoError(t, err)
	require.Contains(t, progress.String(), "building hello\nbuilt hello in ")

	progress.Reset()
	again, err := builder.Path(t.Context(), program)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Empty(t, progress.String())

	write(t, builder.Source, "main_test.go", "package main\n")
	tested, err := builder.Path(t.Context(), program)
	require.NoError(t, err)
	require.Equal(t, first, tested, "tests do not decide the result")

	program.Flags = "-X main.version=two"
	flagged, err := builder.Path(t.Context(), program)
	require.NoError(t, err)
	require.NotEqual(t, first, flagged)

	write(t, builder.Source, "main.go", "package main\n\nfunc main() {}\n")
	changed, err := builder.Path(t.Context(), program)
	require.NoError(t, err)
	require.NotEqual(t, flagged, changed)
}

// What the compiler says reaches the reader, and no half file stays.
func TestPathBroken(t *testing.T) {
	builder, program, _ := tree(t)
	write(t, builder.Source, "main.go", "package main\n\nfunc main() { nowhere() }\n")
	_, err := builder.Path(t.Context(), program)
	var fault *Error
	require.ErrorAs(t, err, &fault)
	require.Contains(t, fault.Output, "undefined: nowhere")
	left, err := filepath.Glob(filepath.Join(builder.Cache, "hello-*", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The version in the flags is the version in go.mod.
func TestVersion(t *testing.T) {
	source, err := Source()
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(mod), "k8s.io/kubernetes "+Version)
	require.Contains(t, Kube.Flags, "gitMajor=1 ")
	require.Contains(t, Kube.Flags, "gitMinor=36 ")
}
