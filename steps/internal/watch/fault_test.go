package watch

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/runner"
)

// faulty answers the first requests that pick chooses with what fault makes.
func faulty(times int, pick func(*http.Request) bool, fault func(*http.Request) *http.Response) func(http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	return func(rt http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			hit := times > 0 && pick(r)
			if hit {
				times--
			}
			mu.Unlock()
			if hit {
				return fault(r), nil
			}
			return rt.RoundTrip(r)
		})
	}
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }
func isList(r *http.Request) bool {
	return !isWatch(r) && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps")
}

func respond(r *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

func statusText(code int32, reason metav1.StatusReason, message string) string {
	raw, _ := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: message,
	})
	return string(raw)
}

func TestUntilSurvives(t *testing.T) {
	gone := `{"type":"ERROR","object":` + statusText(410, metav1.StatusReasonExpired, "too old resource version") + `}` + "\n"
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"a watch that expires": faulty(2, isWatch, func(r *http.Request) *http.Response { return respond(r, 200, gone) }),
		"a watch that is refused as expired": faulty(2, isWatch, func(r *http.Request) *http.Response {
			return respond(r, 410, statusText(410, metav1.StatusReasonExpired, "too old resource version"))
		}),
		"a watch that is closed at once": faulty(3, isWatch, func(r *http.Request) *http.Response { return respond(r, 200, "") }),
		"a watch that ends in the middle of an event": faulty(2, isWatch, func(r *http.Request) *http.Response {
			return respond(r, 200, `{"type":"ADDED","object":{"apiVersion":"v1","ki`)
		}),
		"a conversion webhook that cannot be called": faulty(3, isList, func(r *http.Request) *http.Response {
			return respond(r, 500, statusText(500, metav1.StatusReasonInternalError, `conversion webhook for example.io/v1, Kind=Widget failed: Post "https://x.y.svc:443/convert": EOF`))
		}),
		"credentials that are refused once": faulty(1, isList, func(r *http.Request) *http.Response {
			return respond(r, 401, statusText(401, metav1.StatusReasonUnauthorized, "Unauthorized"))
		}),
		"an API server that is overloaded": faulty(2, isList, func(r *http.Request) *http.Response {
			return respond(r, 503, statusText(503, metav1.StatusReasonServiceUnavailable, "apiserver is shutting down"))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			b := onLab(t, wrap)
			b.configMap(t, "a", nil)
			maps := b.lab.Clientset(t).CoreV1().ConfigMaps(b.namespace)
			err := Until(bounded(t), b.Session, Wait{Targets: []Target{b.target("a")}, Judge: hasData, Changed: func(c Change) {
				if c.Reading.Reason == "no go" {
					_, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"go":"1"}}`), metav1.PatchOptions{})
					require.NoError(t, err)
				}
			}})
			require.NoError(t, err)
		})
	}
}

func TestUntilGivesUpOnCredentials(t *testing.T) {
	b := onLab(t, faulty(100, isList, func(r *http.Request) *http.Response {
		return respond(r, 401, statusText(401, metav1.StatusReasonUnauthorized, "Unauthorized"))
	}))
	err := Until(bounded(t), b.Session, Wait{Targets: []Target{b.target("a")}, Judge: hasData})
	require.True(t, runner.IsPermanent(err))
	require.Contains(t, runner.HintOf(err), "may have expired")
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
