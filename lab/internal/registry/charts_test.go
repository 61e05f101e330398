package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The CRDs of the charts race and operator must not drift apart: Helm keeps those of
// whichever comes first.
func TestSharedFilesAreEqual(t *testing.T) {
	for pattern, number := range map[string]int{
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

// Helm has no include across charts: the other charts with an operator link to the
// templates of the chart race, whose text their archives have.
func TestSharedTemplates(t *testing.T) {
	const own = "../../charts/race/templates/_lab.tpl"
	want, err := os.ReadFile(own)
	require.NoError(t, err)
	shared, err := filepath.Glob("../../charts/*/templates/_lab.tpl")
	require.NoError(t, err)
	require.Len(t, shared, 8)
	for _, file := range shared {
		if file != own {
			target, err := os.Readlink(file)
			require.NoError(t, err)
			require.Equal(t, filepath.FromSlash("../../race/templates/_lab.tpl"), target, file)
		}
		c, err := pack(filepath.Dir(filepath.Dir(file)))
		require.NoError(t, err)
		require.Equal(t, string(want), files(t, c.archive)[c.name+"/templates/_lab.tpl"], file)
	}
}
