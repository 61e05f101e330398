package apply

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each request fails when it is sent for the first time, in one of the ways in which
// requests fail while an API server restarts: reads of objects, of the set and of its
// members too.
func TestApplyGoesOnWhenEachRequestFailsOnce(t *testing.T) {
	for name, fail := range map[string]func(*http.Request) (*http.Response, error){
		"refused":     func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
		"cut":         func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"unavailable": answer(503, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable", "code": 503}`),
		"overloaded":  answer(429, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429}`),
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]bool{}
			f := onLab(t, func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					known := seen[r.Method+r.URL.Path]
					seen[r.Method+r.URL.Path] = true
					mu.Unlock()
					if !known {
						return fail(r)
					}
					return next.RoundTrip(r)
				})
			})
			role := "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}\n"
			_, err := f.apply(t, configMaps("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k")+role, pruning)
			require.NoError(t, err)
			clear(seen)
			r, err := f.apply(t, configMaps("a"), pruning)
			require.NoError(t, err)
			require.Equal(t, "1 unchanged, 11 pruned", r.result(t).Message)
		})
	}
}

func answer(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}
