package charts_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
)

// remote is a chart in a repository that never answers its first request, and a
// channel that is closed when that came.
func remote(t *testing.T) (*charts.Chart, <-chan struct{}) {
	t.Helper()
	dir := t.TempDir()
	_, err := chartutil.Save(&helmchart.Chart{
		Metadata:  &helmchart.Metadata{APIVersion: helmchart.APIVersionV2, Name: "x", Version: "0.1.0"},
		Templates: []*helmchart.File{{Name: "templates/map.yaml", Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}")}},
	}, dir)
	require.NoError(t, err)
	asked := make(chan struct{})
	first := make(chan bool, 1)
	first <- true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-first:
			close(asked)
			<-req.Context().Done()
		default:
			http.FileServer(http.Dir(dir)).ServeHTTP(w, req)
		}
	}))
	t.Cleanup(server.Close)
	index, err := repo.IndexDirectory(dir, server.URL)
	require.NoError(t, err)
	require.NoError(t, index.WriteFile(filepath.Join(dir, "index.yaml"), 0o600))
	c, err := charts.New(plan.Step{Name: "s", Helm: &plan.Helm{Chart: "x", Repo: server.URL}}, "default", store(t))
	require.NoError(t, err)
	return c, asked
}

// store gets charts anew, without those of other tests.
func store(t *testing.T) *source.Store {
	t.Helper()
	s := source.New(source.Options{Cache: t.TempDir()})
	t.Cleanup(s.Close)
	return s
}

// A chart is fetched for whoever asks first. The others wait as long as they
// want to, and get it also if the first one was stopped.
func TestChartIsFetchedForAll(t *testing.T) {
	c, asked := remote(t)
	render := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() {
			objects, err := c.Render(ctx, charts.Capabilities{})
			if err == nil && len(objects) != 1 {
				err = errors.New("not the chart")
			}
			done <- err
		}()
		return done
	}
	tired, stopped := errors.New("tired"), errors.New("stopped")
	firstCtx, stop := context.WithCancelCause(t.Context())
	first := render(firstCtx)
	<-asked
	patient := render(t.Context())
	waiterCtx, leave := context.WithCancelCause(t.Context())
	waiter := render(waiterCtx)

	leave(tired)
	require.ErrorIs(t, <-waiter, tired, "it does not wait for the first")
	stop(stopped)
	require.ErrorIs(t, <-first, stopped)
	require.NoError(t, <-patient)
}

// Rendering does not begin for nobody.
func TestRenderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	c, err := charts.New(plan.Step{Name: "s", Helm: &plan.Helm{Chart: "./nowhere"}}, "default", nil)
	require.NoError(t, err)

	_, err = c.Render(ctx, charts.Capabilities{})

	require.ErrorIs(t, err, stopped)
}

// A repository that is away, or has trouble of its own, may do later; one that
// answers may not. The address's password does not make a difference, nor show.
func TestUnreachableRepository(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	answering := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, c := range map[string]struct {
		repo        string
		unreachable bool
	}{
		"nobody listens":    {closed.URL, true},
		"with a password":   {strings.Replace(closed.URL, "://", "://me:hunter2@", 1), true},
		"has trouble":       {answering(http.StatusBadGateway), true},
		"asks for time":     {answering(http.StatusTooManyRequests), true},
		"has no such page":  {answering(http.StatusNotFound), false},
		"wants credentials": {answering(http.StatusUnauthorized), false},
	} {
		t.Run(name, func(t *testing.T) {
			chart, err := charts.New(plan.Step{Name: "s", Helm: &plan.Helm{Chart: "x", Repo: c.repo}}, "default", store(t))
			require.NoError(t, err)
			_, err = chart.Render(t.Context(), charts.Capabilities{})
			var away *source.UnreachableError
			require.Equal(t, c.unreachable, errors.As(err, &away), "%v", err)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotEmpty(t, runner.HintOf(err))
		})
	}
}
