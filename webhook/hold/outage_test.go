package hold

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errRefused = fmt.Errorf("dial tcp 127.0.0.1:6443: connect: %w", syscall.ECONNREFUSED)

// request makes a request of the demo's Widget w1, as a client of Helm would.
func request(t *testing.T, method, query string) *http.Request {
	t.Helper()
	url, body := "https://api/apis/example.io/v1/namespaces/demo/widgets", io.Reader(http.NoBody)
	if method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		body = io.NopCloser(strings.NewReader(`{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"name":"w1","namespace":"demo"}}`))
	}
	if method != http.MethodPost && query != "watch=true" {
		url += "/w1"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url+"?"+query, body)
	require.NoError(t, err)
	req.Header.Set("User-Agent", "helm/v3")
	return req
}

// said is an answer with a Status of the API server.
func said(code int, reason, message string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code, " ", http.StatusText(code)), Header: h, Body: io.NopCloser(strings.NewReader(text))}
}

// widget is w1 as the API server has it, made by a field manager at some time.
func widget(code int, manager string, made time.Time) *http.Response {
	text := fmt.Sprintf(`{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"name":"w1","namespace":"demo","creationTimestamp":%q,`+
		`"managedFields":[{"manager":%q,"operation":"Update"}]}}`, made.UTC().Format(time.RFC3339), manager)
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}},
		Body: io.NopCloser(strings.NewReader(text)),
	}
}

// connected sends requests over connections that there are, unless a server refuses them.
func connected(f transportFunc) transportFunc {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := f(req)
		if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && !errors.Is(err, errRefused) {
			trace.GotConn(httptrace.GotConnInfo{})
		}
		return resp, err
	}
}

// cut is an answer whose body breaks off.
func cut() *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"kind":`), broken{}))}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Whatever keeps an API server from judging a request for half a minute, the client
// sees one slow request.
func TestTransportWaitsForTheAPIServer(t *testing.T) {
	answers := map[string]func() (*http.Response, error){
		"a server that is not there": func() (*http.Response, error) { return nil, errRefused },
		"connections that break":     func() (*http.Response, error) { return nil, errReset },
		"answers that are cut off":   func() (*http.Response, error) { return cut(), nil },
		"a server that goes down": func() (*http.Response, error) {
			return said(503, "ServiceUnavailable", "apiserver is shutting down"), nil
		},
		"an overloaded server": func() (*http.Response, error) {
			return said(429, "TooManyRequests", "slow down", "Retry-After", "2"), nil
		},
		"a gateway without a server": func() (*http.Response, error) {
			return &http.Response{StatusCode: 502, Status: "502 Bad Gateway", Body: io.NopCloser(strings.NewReader("<html>"))}, nil
		},
		"an etcd that elects a leader": func() (*http.Response, error) { return said(500, "InternalError", "etcdserver: leader changed"), nil },
	}
	for name, answer := range answers {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			t.Run(method+" and "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start, sends := time.Now(), 0
					base := connected(func(req *http.Request) (*http.Response, error) {
						sends++
						switch {
						case time.Since(start) < 30*time.Second:
							return answer()
						case req.Method == http.MethodGet && method == http.MethodPost:
							return said(404, "NotFound", "not found"), nil // the create was not done
						}
						return widget(http.StatusOK, "helm", time.Now()), nil
					})
					tr := &Transport{Base: base, Gate: NewGate(nil), Outage: time.Minute}

					resp, err := tr.RoundTrip(request(t, method, ""))

					require.NoError(t, err)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					require.Less(t, time.Since(start), 33*time.Second)
					require.Less(t, sends, 400)
				})
			})
		}
	}
}

// What a client can go on with, or must know at once, is not waited for.
func TestTransportDoesNotWaitForTheAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		method, query string
		outage        time.Duration
		answer        func() (*http.Response, error)
	}{
		"a watch":          {http.MethodGet, "watch=true", time.Minute, func() (*http.Response, error) { return nil, errRefused }},
		"without outage":   {http.MethodGet, "", 0, func() (*http.Response, error) { return nil, errRefused }},
		"another error":    {http.MethodPut, "", time.Minute, func() (*http.Response, error) { return said(500, "InternalError", "no such table"), nil }},
		"a conflict":       {http.MethodPut, "", time.Minute, func() (*http.Response, error) { return said(409, "Conflict", "modified"), nil }},
		"void credentials": {http.MethodPut, "", time.Minute, func() (*http.Response, error) { return said(401, "Unauthorized", "Unauthorized"), nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				tr := &Transport{Gate: NewGate(nil), Outage: tc.outage, Base: connected(func(*http.Request) (*http.Response, error) { return tc.answer() })}

				resp, err := tr.RoundTrip(request(t, tc.method, tc.query))

				require.Zero(t, time.Since(start))
				want, wantErr := tc.answer()
				require.Equal(t, wantErr, err)
				if want != nil {
					body, _ := io.ReadAll(resp.Body)
					said, _ := io.ReadAll(want.Body)
					require.Equal(t, string(said), string(body), "the answer is as it came")
				}
			})
		})
	}
}

// Credentials that were refused once may have been renewed for it.
func TestTransportSendsAgainWithNewerCredentials(t *testing.T) {
	sends := 0
	tr := &Transport{Gate: NewGate(nil), Outage: time.Minute, Base: connected(func(req *http.Request) (*http.Response, error) {
		if sends++; sends == 1 {
			return said(401, "Unauthorized", "Unauthorized"), nil
		}
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "w1")
		return widget(201, "helm", time.Now()), nil
	})}
	resp, err := tr.RoundTrip(request(t, http.MethodPost, ""))
	require.NoError(t, err)
	require.Equal(t, 201, resp.StatusCode)
}

func TestTransportGivesUpOnTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tr := &Transport{Gate: NewGate(nil), Outage: time.Minute, Base: connected(func(*http.Request) (*http.Response, error) { return nil, errRefused })}

		_, err := tr.RoundTrip(request(t, http.MethodPatch, ""))

		require.EqualError(t, err, "Widget/demo/w1 was held 1m0s for the API server: dial tcp 127.0.0.1:6443: connect: connection refused")
		require.Equal(t, time.Minute, time.Since(start))
		var held *Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, time.Minute, held.Limit)
	})
}

// The object of a create whose answer was lost is the answer, if the create made it.
func TestTransportFindsWhatItMade(t *testing.T) {
	for name, tc := range map[string]struct {
		manager string
		age     time.Duration
		query   string
		label   string // of the run that sends; what is there has none
		ours    bool
	}{
		"made by the create":            {manager: "helm", ours: true},
		"made by its named manager":     {manager: "helm-controller", query: "fieldManager=helm-controller", ours: true},
		"made before the create":        {manager: "helm", age: time.Minute},
		"made by somebody else just so": {manager: "kubectl"},
		"made by another run just so":   {manager: "helm", label: "another"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made, creates := time.Now().Add(-tc.age), 0
				tr := &Transport{Gate: NewGate(nil), Outage: time.Minute, Base: connected(func(req *http.Request) (*http.Response, error) {
					if req.Method == http.MethodGet {
						require.Equal(t, "/apis/example.io/v1/namespaces/demo/widgets/w1", req.URL.Path)
						return widget(200, tc.manager, made), nil
					}
					creates++
					return nil, errReset
				})}

				req := request(t, http.MethodPost, tc.query)
				if tc.label != "" {
					req.Body = io.NopCloser(strings.NewReader(`{"kind":"Widget","metadata":{"name":"w1","labels":{"run":"` + tc.label + `"}}}`))
				}
				resp, err := tr.RoundTrip(req)

				require.Equal(t, 1, creates)
				if !tc.ours {
					require.ErrorIs(t, err, errReset)
					return
				}
				require.NoError(t, err)
				require.Equal(t, http.StatusCreated, resp.StatusCode)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Contains(t, string(body), `"name":"w1"`)
			})
		})
	}
}

// One request finds out that the server is back; the others follow.
func TestTransportsLeadWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			if time.Since(start) < 20*time.Second {
				return nil, errRefused
			}
			return nil, nil
		}}
		tr := &Transport{Base: server, Gate: NewGate(nil), Outage: time.Minute}
		errs := make(chan error)
		const many = 50
		for range many {
			go func() { // ends with its request
				_, err := tr.RoundTrip(request(t, http.MethodPatch, ""))
				errs <- err
			}()
		}
		var all error
		for range many {
			all = errors.Join(all, <-errs)
		}
		require.NoError(t, all)
		require.Less(t, time.Since(start), 22*time.Second)
		require.Less(t, int(server.sends.Load()), 500)
	})
}
