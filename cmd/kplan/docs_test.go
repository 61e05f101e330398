package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/require"
)

// Each command has a page in docs/reference/cli, made from its help; -update writes them anew.
func TestCommandPages(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "reference", "cli")
	root := newRoot(newApp("kplan", strings.NewReader(""), io.Discard, io.Discard))
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	pages := map[string]string{}
	collect(t, root, pages)
	if *update {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, page := range pages {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644))
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, len(pages), "a page for each command, and no other")
	for name, page := range pages {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, page, string(b), "%s is stale: run make golden", name)
	}
}

func collect(t *testing.T, cmd *cobra.Command, pages map[string]string) {
	t.Helper()
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return
	}
	var b bytes.Buffer
	require.NoError(t, doc.GenMarkdown(cmd, &b))
	pages[strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md"] = b.String()
	for _, sub := range cmd.Commands() {
		collect(t, sub, pages)
	}
}
