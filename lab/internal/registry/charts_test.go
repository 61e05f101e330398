package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Helm has no include across charts, so _lab.tpl is copied into each chart
// with an operator; the copies must not drift apart.
func TestSharedTemplatesAreEqual(t *testing.T) {
	copies, err := filepath.Glob("../../charts/*/templates/_lab.tpl")
	require.NoError(t, err)
	require.Len(t, copies, 5)
	want, err := os.ReadFile(copies[0])
	require.NoError(t, err)
	for _, file := range copies[1:] {
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), file)
	}
}
