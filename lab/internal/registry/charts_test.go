package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Helm has no include across charts, so _lab.tpl is copied into each chart
// with an operator; the copies must not drift apart.
// The CRDs of the charts race and operator must not either: Helm keeps those of
// whichever comes first.
func TestSharedFilesAreEqual(t *testing.T) {
	for pattern, number := range map[string]int{
		"*/templates/_lab.tpl":     8,
		"*/crds/alerts.yaml":       2,
		"*/crds/gadgets.yaml":      2,
		"*/crds/widgets.yaml":      2,
		"*/crds/certificates.yaml": 2,
	} {
		copies, err := filepath.Glob("../../charts/" + pattern)
		require.NoError(t, err)
		require.Len(t, copies, number, pattern)
		want, err := os.ReadFile(copies[0])
		require.NoError(t, err)
		for _, file := range copies[1:] {
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), file)
		}
	}
}
