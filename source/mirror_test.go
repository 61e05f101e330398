package source_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/source"
)

// What is below a mapped address comes from the mirror, under the reference of the plan
// and with the lock's digest; the host that the plan names is not asked.
func TestMirrors(t *testing.T) {
	const chart = "what is in the archive"
	f := serve(t, map[string]string{
		"/mirror/crds.yaml": "kind: List", "/mirror/charts/x-1.0.0.tgz": chart,
		"/mirror/charts/index.yaml": "entries: {x: [{name: x, version: 1.0.0, urls: [x-1.0.0.tgz]}]}",
	})
	mapping, err := source.ParseMapping("https://files.example.invalid=" + f.URL + "/mirror/")
	require.NoError(t, err)
	wrong, err := source.ParseMapping("files.example=" + f.URL + "/wrong")
	require.NoError(t, err)
	mirrors := source.NewMirrors(source.Options{Cache: t.TempDir()}, wrong, mapping)
	t.Cleanup(mirrors.Close)
	s := open(t, source.Options{Contents: mirrors, Pins: lock{Digest: digest([]byte("kind: List"))}})

	a, err := s.File(t.Context(), source.File{URL: "https://files.example.invalid/crds.yaml"})
	require.NoError(t, err)
	require.Equal(t, "kind: List", string(a.Bytes))
	_, err = s.Chart(t.Context(), source.Chart{Name: "x", Repo: "https://user:pass@files.example.invalid/charts", Version: "^1"})
	var mismatch *source.MismatchError
	require.ErrorAs(t, err, &mismatch, "the mirror is not trusted more than the original")

	s = open(t, source.Options{Contents: mirrors})
	a, err = s.Chart(t.Context(), source.Chart{Name: "x", Repo: "https://files.example.invalid/charts", Version: "^1"})
	require.NoError(t, err)
	require.Equal(t, chart, string(a.Bytes))
	refs := s.Fetched()
	require.Equal(t, "https://files.example.invalid/charts", refs[0].Repo, "it is known by the plan's own words")
}

func TestParseMapping(t *testing.T) {
	for text, want := range map[string]source.Mapping{
		"ghcr.io=registry.internal/ghcr":                {Old: "ghcr.io", New: "registry.internal/ghcr"},
		"oci://ghcr.io/org/=oci://127.0.0.1:5000":       {Old: "ghcr.io/org", New: "127.0.0.1:5000"},
		"https://charts.example.com=http://mirror:8080": {Old: "charts.example.com", New: "mirror:8080", PlainHTTP: true},
	} {
		got, err := source.ParseMapping(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text := range strings.SplitSeq(`|a|=b|a=|a=b=c|a=me:secret@b`, "|") {
		_, err := source.ParseMapping(text)
		require.Error(t, err, "%q", text)
		require.NotContains(t, err.Error(), "secret")
	}
}
