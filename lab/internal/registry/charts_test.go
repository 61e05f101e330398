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

// Helm has no include across charts: each chart with an operator links to the one
// file of templates, whose text its archive has.
func TestSharedTemplates(t *testing.T) {
	want, err := os.ReadFile("../../charts/_lab.tpl")
	require.NoError(t, err)
	links, err := filepath.Glob("../../charts/*/templates/_lab.tpl")
	require.NoError(t, err)
	require.Len(t, links, 8)
	for _, link := range links {
		target, err := os.Readlink(link)
		require.NoError(t, err)
		require.Equal(t, filepath.FromSlash("../../_lab.tpl"), target, link)
		c, err := pack(filepath.Dir(filepath.Dir(link)))
		require.NoError(t, err)
		require.Equal(t, string(want), files(t, c.archive)[c.name+"/templates/_lab.tpl"], link)
	}
}
