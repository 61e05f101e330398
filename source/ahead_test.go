package source_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
)

// What steps are going to ask for is fetched side by side, each once, whoever asks; what
// cannot be had is told, and holds nothing else up.
func TestAhead(t *testing.T) {
	noLogins(t)
	// Nothing is answered before all of it was asked for.
	var waiting sync.WaitGroup
	waiting.Add(2)
	f := serve(t, map[string]string{"/x.tgz": "chart", "/w.tgz": "chart w", "/z.tgz": "chart z"})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/index.yaml":
			_, _ = w.Write([]byte("entries: {x: [{name: x, version: 1.0.0, urls: [x.tgz]}], w: [{name: w, version: 1.0.0, urls: [w.tgz]}], z: [{name: z, version: 1.0.0, urls: [z.tgz]}]}"))
			return
		case "/x.tgz", "/w.tgz":
			waiting.Done()
			waiting.Wait()
		}
		http.Redirect(w, r, f.URL+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(slow.Close)
	helm := func(name string) *plan.Helm { return &plan.Helm{Chart: name, Repo: slow.URL} }
	steps := []plan.Step{
		{Name: "a", Helm: helm("x")},
		{Name: "b", Helm: helm("x")},
		{Name: "c", Helm: helm("absent")},
		{Name: "d", Helm: &plan.Helm{Chart: "./local"}},
		{Name: "e", Helm: helm("z"), Skip: "not picked"},
		{Name: "f", Helm: helm("w")},
		{Name: "g", Apply: &plan.Apply{Files: []string{"local.yaml"}}},
	}
	s, cache := (*source.Store)(nil), t.TempDir()
	for _, kept := range []bool{false, true} {
		s = open(t, source.Options{Cache: cache})
		var told []source.Ahead
		if kept {
			waiting.Add(2)
		}
		s.Ahead(t.Context(), steps, func(a source.Ahead) { told = append(told, a) })
		names := map[string]bool{}
		for i, a := range told {
			require.Equal(t, i+1, a.Done)
			require.Equal(t, 3, a.Total)
			names[a.Reference.Name] = a.Err == nil
		}
		require.Equal(t, map[string]bool{"x": true, "absent": false, "w": true}, names)
	}
	_, err := s.Chart(t.Context(), source.ChartOf(steps[0]))
	require.NoError(t, err)
	require.EqualValues(t, 2, f.asked["/x.tgz"].Load(), "once a run")
	require.EqualValues(t, 1, f.sent["/x.tgz"].Load())
	require.Zero(t, f.asked["/z.tgz"].Load())
}
