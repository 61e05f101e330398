package main

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableCell makes words a cell of a table: an expression is code, so that no renderer takes it
// for its own.
var tableCell = strings.NewReplacer("|", `\|`, "${{ … }}", "`${{ … }}`")

// docs/reference/packages.md has the packages that other programs may import, each with the
// first sentence of its documentation.
func TestPackagesPage(t *testing.T) {
	const mark = "<!-- packages: written by go test ./cmd/kplan -run TestPackagesPage -update -->\n"
	file := filepath.Join("..", "..", "docs", "reference", "packages.md")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(page), mark)
	require.True(t, found)

	synopses := map[string]string{}
	for _, source := range sources(t, filepath.Join("..", "..")) {
		dir := filepath.ToSlash(filepath.Dir(source))
		floor, _, _ := strings.Cut(dir, "/")
		if slices.Contains([]string{"bench", "cmd", "lab", "tools"}, floor) || slices.Contains(strings.Split(dir, "/"), "internal") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", source), nil, parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err)
		if text := parsed.Doc.Text(); text != "" {
			synopses[dir] = new(doc.Package).Synopsis(text)
		} else if _, known := synopses[dir]; !known {
			synopses[dir] = ""
		}
	}
	var dirs []string
	for dir, synopsis := range synopses {
		require.NotEmpty(t, synopsis, "package %s says nothing of itself", dir)
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	var out strings.Builder
	out.WriteString(head + mark + "\n| package | what it does |\n|---|---|\n")
	for _, dir := range dirs {
		fmt.Fprintf(&out, "| [`%s`](https://pkg.go.dev/github.com/kplan-dev/kplan/%s) | %s |\n", dir, dir, tableCell.Replace(synopses[dir]))
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o644))
		return
	}
	require.Equal(t, out.String(), string(page), "stale: go test ./cmd/kplan -run TestPackagesPage -update")
}
