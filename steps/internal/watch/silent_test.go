package watch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// A watch that says nothing any more, nor ends when it was to, delays a wait by no
// more than the bound of a watch.
func TestUntilBehindASilentProxy(t *testing.T) {
	for name, watched := range map[string]http.HandlerFunc{
		"which swallows the events":     labtest.Swallow,
		"which swallows the answer too": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := onLab(t, nil)
			var once sync.Once
			proxied := b.lab.Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if !isWatch(r) {
					next.ServeHTTP(w, r)
					return
				}
				once.Do(func() { b.configMap(t, "a", map[string]string{"go": ""}) })
				watched(w, r)
			})
			c, err := cluster.Connect(t.Context(), proxied.Flags(), "kplan/test")
			require.NoError(t, err)
			s, err := c.Session(cluster.Options{})
			require.NoError(t, err)
			// No timeout, after which there is a last look.
			ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("nobody looked again"))
			defer cancel()

			require.NoError(t, Until(ctx, s, Wait{Targets: []Target{b.target("a")}, Judge: hasData, bound: time.Second}))
		})
	}
}
