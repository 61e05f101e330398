package hold

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	refused = `Internal error occurred: failed calling webhook "v.example.io": failed to call webhook: Post "https://w.ns.svc:443/v?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused`
	notTrue = `Internal error occurred: failed calling webhook "v.example.io": failed to call webhook: Post "https://w.ns.svc:443/v?timeout=10s": tls: failed to verify certificate: x509: certificate is valid for other.ns.svc, not w.ns.svc`
	denial  = `admission webhook "v.example.io" denied the request: no`
)

// apiServer answers requests as its answer function says; nil is 201 Created.
type apiServer struct {
	answer   func(body string) (*metav1.Status, error)
	sends    atomic.Int32
	inFlight atomic.Int32
	most     atomic.Int32
	away     func() bool // nil: never
	exists   func() bool // of the object, when it is read by its name
}

func (s *apiServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sends.Add(1)
	s.most.Store(max(s.most.Load(), s.inFlight.Add(1)))
	defer s.inFlight.Add(-1)
	if s.away != nil && s.away() {
		return nil, errors.New("read: connection reset by peer")
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if s.exists != nil && strings.HasSuffix(req.URL.Path, "/w1") {
		code := http.StatusNotFound
		if s.exists() {
			code = http.StatusOK
		}
		return &http.Response{StatusCode: code, Body: http.NoBody}, nil
	}
	body, _ := io.ReadAll(req.Body)
	time.Sleep(time.Millisecond) // in the bubble's time: a request takes a while
	status, err := s.answer(string(body))
	if err != nil {
		return nil, err
	}
	if status == nil {
		return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(bytes.NewReader(body))}, nil
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	b, _ := json.Marshal(status)
	return &http.Response{StatusCode: int(status.Code), Body: io.NopCloser(bytes.NewReader(b))}, nil
}

// readyAfter answers with text until d has passed.
func readyAfter(d time.Duration, text string) func(string) (*metav1.Status, error) {
	at := time.Now().Add(d)
	return func(string) (*metav1.Status, error) {
		if time.Now().Before(at) {
			return internalError(text), nil
		}
		return nil, nil
	}
}

func create(ctx context.Context, t *testing.T, name string) *http.Request {
	t.Helper()
	body := `{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"name":"` + name + `","namespace":"demo"}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"https://api/apis/example.io/v1/namespaces/demo/widgets", io.NopCloser(strings.NewReader(body)))
	require.NoError(t, err)
	return req
}

func TestTransportHoldsUntilTheWebhookAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: readyAfter(8*time.Second, refused)}
		var notices []Notice
		tr := &Transport{Base: server, Gate: NewGate(nil), Notify: func(n Notice) { notices = append(notices, n) }}
		start := time.Now()

		resp, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"name":"w1"`, "the body is sent whole each time")
		require.Less(t, time.Since(start), 9500*time.Millisecond)
		require.Len(t, notices, 2, "one notice when it is held, one when it is released")
		require.Equal(t, Held, notices[0].Event)
		require.Equal(t, "Widget/demo/w1", notices[0].Request.String())
		require.Equal(t, "ns/w", notices[0].Fault.ServiceKey())
		require.Equal(t, Released, notices[1].Event)
		require.NoError(t, notices[1].Err)
		require.Equal(t, int(server.sends.Load()), notices[1].Sends)
	})
}

func TestTransportReturnsADenialUntouched(t *testing.T) {
	for _, code := range []int32{400, 403, 409, 422, 500} { // the webhook chooses
		t.Run(fmt.Sprint(code), func(t *testing.T) { returnsADenial(t, code) })
	}
}

func returnsADenial(t *testing.T, code int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			return &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: denial}, nil
		}}
		var notices []Notice
		tr := &Transport{Base: server, Gate: NewGate(nil), Notify: func(n Notice) { notices = append(notices, n) }}

		resp, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.EqualValues(t, 1, server.sends.Load())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "denied the request")
		require.Len(t, notices, 1, "a denial is told, not held")
		require.Equal(t, Denied, notices[0].Event)
		require.Equal(t, "Widget/demo/w1", notices[0].Request.String())
	})
}

// A client may ask of a request of its own what a Transport tells of all.
func TestTransportNotifiesTheRequestItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: readyAfter(time.Second, refused)}
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		var told []Event
		ctx := WithNotify(t.Context(), func(n Notice) {
			require.Equal(t, "Widget/demo/w1", n.Request.String())
			require.Equal(t, "ns/w", n.Fault.ServiceKey())
			told = append(told, n.Event)
		})

		_, err := tr.RoundTrip(create(ctx, t, "w1"))

		require.NoError(t, err)
		require.Equal(t, []Event{Held, Released}, told)
	})
}

// A kind that is not served yet is the client's to wait for.
func TestTransportDoesNotHoldForDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			return &metav1.Status{
				Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
				Message: "the server could not find the requested resource",
			}, nil
		}}
		tr := &Transport{Base: server, Gate: NewGate(nil)}

		resp, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
		require.EqualValues(t, 1, server.sends.Load())
	})
}

func TestTransportEndsAHoldWithADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := time.Now().Add(2 * time.Second)
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			if time.Now().Before(ready) {
				return internalError(refused), nil
			}
			return &metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: denial}, nil
		}}
		tr := &Transport{Base: server, Gate: NewGate(nil)}

		resp, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
	})
}

func TestTransportBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		limit time.Duration
	}{
		"a webhook that never comes":       {refused, 20 * time.Second},
		"a webhook that is misconfigured":  {notTrue, 5 * time.Second},
		"a conversion webhook that is not": {strings.Replace(refused, `failed calling webhook "v.example.io": failed to call webhook:`, "conversion webhook for example.io/v1, Kind=Widget failed:", 1), 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{answer: readyAfter(time.Hour, tc.text)}
				var last Notice
				tr := &Transport{
					Base: server, Gate: NewGate(nil), Timeout: 20 * time.Second, Grace: 5 * time.Second,
					Notify: func(n Notice) { last = n },
				}
				start := time.Now()

				_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

				var held *Error
				require.ErrorAs(t, err, &held)
				require.Equal(t, tc.limit, held.Limit)
				require.WithinRange(t, time.Now(), start.Add(tc.limit), start.Add(tc.limit+100*time.Millisecond))
				require.ErrorContains(t, err, "(Service ns/w), which never answered: ")
				require.Equal(t, err, last.Err)
				require.Equal(t, Released, last.Event)
			})
		})
	}
}

// While a request is held, the API server itself may restart.
func TestTransportSurvivesAnAPIServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &apiServer{
			answer: readyAfter(3*time.Second, refused),
			// It accepts no connection, or breaks it in the TLS handshake.
			away: func() bool { d := time.Since(start); return d > time.Second && d < 4*time.Second },
		}
		tr := &Transport{Base: server, Gate: NewGate(nil)}

		resp, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, resp.StatusCode)
	})
}

// What has never been sent yet, because others of its kind go first, is in no worse
// place than they are when the API server restarts.
func TestTransportSendsAgainWhatMeetsAnAPIServerThatIsAway(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		held   bool // another request is
		want   string
	}{
		"while another is held":                      {http.MethodPost, true, ""},
		"a read, which the client repeats by itself": {http.MethodGet, true, "connection reset by peer"},
		"when nothing is held":                       {http.MethodPost, false, "connection reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server := &apiServer{
					answer: readyAfter(5*time.Second, refused),
					away:   func() bool { d := time.Since(start); return d > time.Second && d < 3*time.Second },
				}
				gate := NewGate(nil)
				if tc.held {
					go func() { _, _ = (&Transport{Base: server, Gate: gate}).RoundTrip(create(t.Context(), t, "first")) }()
				}
				time.Sleep(2 * time.Second)
				req := create(t.Context(), t, "w2")
				req.Method = tc.method

				resp, err := (&Transport{Base: server, Gate: gate}).RoundTrip(req)

				if tc.want != "" {
					require.ErrorContains(t, err, tc.want)
					time.Sleep(5 * time.Second) // the other one ends
					return
				}
				require.NoError(t, err)
				require.Equal(t, http.StatusCreated, resp.StatusCode)
			})
		})
	}
}

// A connection that breaks after the request left proves nothing: the object
// may have been written, and whether it exists decides.
func TestTransportDoesNotRepeatWhatMayHaveBeenWritten(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	for name, tc := range map[string]struct {
		method string
		exists bool
		body   string
		sends  int // after the break, those that read the object not counted
		err    error
	}{
		"a create that was done":           {http.MethodPost, true, "", 0, reset},
		"a create that was not":            {http.MethodPost, false, "", 1, nil},
		"a create of a name to be made up": {http.MethodPost, false, `{"kind":"Widget","metadata":{"generateName":"w-"}}`, 0, reset},
		"an apply, done or not":            {http.MethodPatch, true, "", 1, nil},
		"a read":                           {http.MethodGet, true, "", 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, broken, sends := time.Now(), false, 0
				server := &apiServer{exists: func() bool { return tc.exists }}
				server.answer = func(string) (*metav1.Status, error) {
					switch {
					case time.Since(start) < time.Second:
						return internalError(refused), nil
					case !broken:
						broken = true
						return nil, reset
					}
					sends++
					return nil, nil
				}
				tr := &Transport{Base: server, Gate: NewGate(nil)}
				req := create(t.Context(), t, "w1")
				req.Method = tc.method
				if tc.body != "" {
					req.Body = io.NopCloser(strings.NewReader(tc.body))
				}

				_, err := tr.RoundTrip(req)

				require.ErrorIs(t, err, tc.err)
				require.Equal(t, tc.sends, sends)
			})
		})
	}
}

// A request that passes one webhook and then meets another is held by each in turn.
func TestTransportTellsWhichWebhookHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		validating := strings.Replace(refused, "v.example.io", "second.example.io", 1)
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			switch d := time.Since(start); {
			case d < 2*time.Second:
				return internalError(refused), nil
			case d < 3*time.Second:
				return internalError(validating), nil
			default:
				return nil, nil
			}
		}}
		var told []string
		var held time.Duration
		tr := &Transport{Base: server, Gate: NewGate(nil), Notify: func(n Notice) {
			told = append(told, string(n.Event)+" "+n.Fault.Webhook)
			require.NoError(t, n.Err)
			if n.Event == Released {
				held += n.Held
			}
		}}

		_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.Equal(t, []string{
			"held v.example.io", "released v.example.io", "held second.example.io", "released second.example.io",
		}, told)
		require.InDelta(t, 3*time.Second, held, float64(100*time.Millisecond), "no time is counted twice")
	})
}

// An HTTP status of the webhook names no Service; it must not look like another webhook.
func TestTransportKnowsAWebhookWithoutItsAddress(t *testing.T) {
	sends := func(answer func(n int32) string) (n int32) {
		synctest.Test(t, func(t *testing.T) {
			server := &apiServer{}
			server.answer = func(string) (*metav1.Status, error) { return internalError(answer(server.sends.Load())), nil }
			tr := &Transport{Base: server, Gate: NewGate(nil), Timeout: time.Minute}
			_, err := tr.RoundTrip(create(t.Context(), t, "w1"))
			require.Error(t, err)
			n = server.sends.Load()
		})
		return n
	}
	unavailable := `Internal error occurred: failed calling webhook "v.example.io": failed to call webhook: the server is currently unable to handle the request`
	steady := sends(func(int32) string { return refused })
	flapping := sends(func(n int32) string {
		if n%2 == 0 {
			return unavailable
		}
		return refused
	})
	require.InDelta(t, steady, flapping, 20)
}

func internalError(message string) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: message,
	}
}
