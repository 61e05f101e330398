package source_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/source"
)

// files is a web server with ETags, and how often each path was asked for and sent.
type files struct {
	*httptest.Server
	texts       map[string]string
	asked, sent map[string]*atomic.Int64
}

func serve(t *testing.T, texts map[string]string) *files {
	t.Helper()
	f := &files{texts: texts, asked: map[string]*atomic.Int64{}, sent: map[string]*atomic.Int64{}}
	for path := range texts {
		f.asked[path], f.sent[path] = new(atomic.Int64), new(atomic.Int64)
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := f.texts[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		f.asked[r.URL.Path].Add(1)
		etag := fmt.Sprintf("%q", digest([]byte(text)))
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		f.sent[r.URL.Path].Add(1)
		fmt.Fprint(w, text)
	}))
	t.Cleanup(f.Close)
	return f
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func open(t *testing.T, o source.Options) *source.Store {
	t.Helper()
	if o.Cache == "" {
		o.Cache = t.TempDir()
	}
	s := source.New(o)
	t.Cleanup(s.Close)
	return s
}

// A repository's index is asked for once a run and sent only when it changed; a chart
// whose digest the index has is not asked for again.
func TestRepositoryIsCached(t *testing.T) {
	const chart = "what is in the archive"
	f := serve(t, map[string]string{"/charts/x-1.0.0.tgz": chart, "/charts/index.yaml": ""})
	f.texts["/charts/index.yaml"] = "entries: {x: [{name: x, version: 1.0.0, urls: [x-1.0.0.tgz], digest: " + digest([]byte(chart))[7:] + "}]}"
	cache := t.TempDir()
	for run := range int64(3) {
		s := open(t, source.Options{Cache: cache})
		for _, version := range []string{"1.0.0", "^1", ""} {
			a, err := s.Chart(t.Context(), source.Chart{Name: "x", Repo: f.URL + "/charts", Version: version})
			require.NoError(t, err)
			require.Equal(t, chart, string(a.Bytes))
			require.Equal(t, "1.0.0", a.Version)
			require.Equal(t, digest([]byte(chart)), a.Digest)
		}
		require.EqualValues(t, 1, f.sent["/charts/index.yaml"].Load(), "run %d", run)
		require.EqualValues(t, 1, f.asked["/charts/x-1.0.0.tgz"].Load(), "run %d", run)
	}
}

// lock pins every reference.
type lock source.Pin

func (l lock) Pin(source.Reference) (*source.Pin, error) { return (*source.Pin)(&l), nil }

// What is not what a lock file says is refused, by both digests.
func TestPins(t *testing.T) {
	f := serve(t, map[string]string{"/crds.yaml": "kind: List"})
	want := digest([]byte("kind: List"))
	a, err := open(t, source.Options{Pins: lock{Digest: want}}).File(t.Context(), source.File{URL: f.URL + "/crds.yaml"})
	require.NoError(t, err)
	require.Equal(t, want, a.Digest)

	other := digest([]byte("kind: Other"))
	_, err = open(t, source.Options{Pins: lock{Digest: other}}).File(t.Context(), source.File{URL: f.URL + "/crds.yaml"})
	var mismatch *source.MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, want)
	require.ErrorContains(t, err, other)
}
