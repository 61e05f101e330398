package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/reference/exit-codes.md has a row for each code of exit.go.
func TestExitCodesPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "exit-codes.md"))
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	require.NoError(t, err)
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "exit") || len(spec.Values) != 1 {
			return true
		}
		if code, ok := spec.Values[0].(*ast.BasicLit); ok {
			n++
			require.Contains(t, string(page), "\n| "+code.Value+" | ", "%s has no row", spec.Names[0].Name)
		}
		return true
	})
	require.Equal(t, 7, n, "the codes were read")
}
