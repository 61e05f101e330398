package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// discard is a reporter that nobody listens to.
type discard struct{}

func (discard) Report(runner.Report) {}

// reports is a reporter that keeps what it is told, by one goroutine.
type reports struct{ all []runner.Report }

func (r *reports) Report(p runner.Report) { r.all = append(r.all, p) }

// server answers after a while, unless the request's context ends before.
type server struct{ takes time.Duration }

func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	case <-time.After(s.takes):
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
	}
}

func request(t *testing.T, method, path string) *http.Request {
	t.Helper()
	// Background: the libraries below a step give no context.
	req, err := http.NewRequestWithContext(context.Background(), method, "https://api"+path, http.NoBody)
	require.NoError(t, err)
	return req
}

func TestAttemptEndsItsRequests(t *testing.T) {
	stop := errors.New("interrupted")
	record := "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.x.v1"
	for name, tc := range map[string]struct {
		method, path string
		takes        time.Duration
		sent         time.Duration // when the request is sent; the attempt ends after 1 s
		want         error
		ends         time.Duration
	}{
		"a request before the end":                    {http.MethodPost, "/api/v1/pods", 500 * time.Millisecond, 0, nil, 500 * time.Millisecond},
		"a watch ends at once":                        {http.MethodGet, "/api/v1/pods", time.Hour, 0, stop, time.Second},
		"a write on its way comes to its end":         {http.MethodPost, "/api/v1/pods", 3 * time.Second, 0, nil, 3 * time.Second},
		"but not for ever":                            {http.MethodPost, "/api/v1/pods", time.Hour, 0, stop, time.Second + finish},
		"a new request is refused":                    {http.MethodPost, "/api/v1/pods", time.Second, 2 * time.Second, stop, 2 * time.Second},
		"the record of a release is still written":    {http.MethodPut, record, time.Second, 2 * time.Second, nil, 3 * time.Second},
		"a new revision of a release is not":          {http.MethodPost, "/api/v1/namespaces/ns/secrets", time.Second, 2 * time.Second, stop, 2 * time.Second},
		"the record waits for a slow server, bounded": {http.MethodPut, record, time.Hour, 2 * time.Second, stop, 2*time.Second + finish + bounded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				client := Begin(ctx, discard{}).Wrap(server{tc.takes})
				start := time.Now()
				time.AfterFunc(time.Second, func() { cancel(stop) })
				time.Sleep(tc.sent)

				resp, err := client.RoundTrip(request(t, tc.method, tc.path))

				if tc.want != nil {
					require.ErrorIs(t, err, tc.want)
				} else {
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.Equal(t, tc.ends, time.Since(start))
			})
		})
	}
}

// bounded is how much later than finish the record of a release ends.
const bounded = record

func TestAttemptTellsOfHolds(t *testing.T) {
	out := &reports{}
	a := Begin(t.Context(), out)
	fault := webhook.Fault{Kind: webhook.Validating, Webhook: "v.example.io", Service: "w", Namespace: "ns", Cause: "EOF"}
	notice := hold.Notice{Event: hold.Held, Request: hold.Request{Kind: "Widget", Namespace: "demo", Name: "w1"}, Fault: fault}

	a.Notify(notice)
	notice.Event, notice.Held, notice.Sends = hold.Released, 1500*time.Millisecond, 7
	a.Notify(notice)
	notice.Err = &hold.Error{Limit: 5 * time.Minute}
	a.Notify(notice)

	w := runner.Webhook{Name: "v.example.io", Service: "ns/w", Cause: "EOF", Explanation: webhook.Explain("EOF")}
	released := w
	released.HeldSeconds, released.Sends = 1.5, 7
	require.Equal(t, []runner.Report{
		{Type: runner.TypeHeld, Object: "Widget/demo/w1", Webhook: &w},
		{Type: runner.TypeReleased, Object: "Widget/demo/w1", Webhook: &released},
		{Type: runner.TypeReleased, Object: "Widget/demo/w1", Webhook: &released, Error: "not answered within 5m0s"},
	}, out.all)
}

// What holds a request always has a name.
func TestAttemptNamesTheAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		fault webhook.Fault
		want  string
	}{
		"it starts":         {webhook.Fault{Kind: webhook.Server, Cause: "the API server starts or stops"}, runner.APIServer},
		"it lacks a kind":   {webhook.Fault{Kind: webhook.Definition}, runner.APIServer},
		"and says which":    {webhook.Fault{Kind: webhook.Definition, Webhook: "widgets.example.io"}, "widgets.example.io"},
		"a webhook is told": {webhook.Fault{Kind: webhook.Validating, Webhook: "v.example.io"}, "v.example.io"},
		"a webhook is not":  {webhook.Fault{Kind: webhook.Admission}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := &reports{}

			Begin(t.Context(), out).Notify(hold.Notice{Event: hold.Held, Fault: tc.fault})

			require.Equal(t, tc.want, out.all[0].Webhook.Name)
		})
	}
}

func TestExplainHold(t *testing.T) {
	fault := webhook.Fault{
		Kind: webhook.Validating, Class: webhook.Race, Webhook: "v.example.io", Service: "w", Namespace: "ns", Cause: "connection refused",
	}
	request := hold.Request{Kind: "Widget", Namespace: "demo", Name: "w1"}
	bound := &runner.TimeoutError{After: time.Minute}
	for name, tc := range map[string]struct {
		err  error
		want string
		hint string
	}{
		"not about a hold": {errors.New("x"), "x", ""},
		"the hold's own bound": {
			&hold.Error{Request: request, Fault: fault, Limit: 5 * time.Minute},
			`timed out after 5m waiting for webhook "v.example.io" (Service ns/w) to judge Widget/demo/w1: connection refused`,
			"kubectl get endpointslices,pods -n ns",
		},
		"the step's bound": {
			&hold.Error{Request: request, Fault: fault, Cause: bound},
			`timed out after 1m waiting for webhook "v.example.io" (Service ns/w) to judge Widget/demo/w1: connection refused`,
			"kubectl get endpointslices,pods -n ns",
		},
		"a misconfigured webhook": {
			&hold.Error{Request: request, Fault: webhook.Fault{Class: webhook.Misconfigured, Webhook: "v", Cause: "x509: wrong"}, Limit: 30 * time.Second},
			`timed out after 30s waiting for webhook "v" to judge Widget/demo/w1: x509: wrong`,
			"does not heal by waiting",
		},
		"the API server itself": {
			&hold.Error{Request: request, Fault: webhook.Fault{Kind: webhook.Server, Cause: "the API server starts or stops"}, Limit: time.Minute},
			`timed out after 1m waiting for the API server to take Widget/demo/w1: the API server starts or stops`,
			"kubectl get --raw '/readyz?verbose'",
		},
		"with the server's own text": {
			&hold.Error{Request: request, Fault: webhook.Fault{Webhook: "v", Cause: "EOF", Message: "Internal error occurred: failed calling webhook \"v\": EOF\n"}, Limit: time.Minute},
			"timed out after 1m waiting for webhook \"v\" to judge Widget/demo/w1: EOF\n" +
				`(API server: Internal error occurred: failed calling webhook "v": EOF)`,
			"kplan webhooks",
		},
		"an interrupted run": {
			&hold.Error{Request: request, Fault: fault, Cause: errors.New("interrupted")},
			`Widget/demo/w1 was held 0s for webhook "v.example.io" (Service ns/w), which never answered: connection refused: interrupted`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Explainer{Owners: diagnosis.Owners{Plan: &plan.Plan{}}, Gate: hold.NewGate(nil)}).Explain(tc.err)
			require.EqualError(t, err, tc.want)
			require.Contains(t, runner.HintOf(err), tc.hint)
			require.ErrorIs(t, err, tc.err, "the client's own error stays in the chain")
		})
	}
}

// The API server does not say which object a webhook refused, and Helm does not add it.
func TestDeniedObjectsAreNamed(t *testing.T) {
	a := Begin(t.Context(), discard{})
	message := `admission webhook "v.example.io" denied the request: no`
	for _, name := range []string{"w1", "w2"} {
		a.Notify(hold.Notice{
			Event: hold.Denied, Request: hold.Request{Kind: "Widget", Namespace: "demo", Name: name},
			Fault: webhook.Fault{Class: webhook.Denied, Message: message},
		})
	}

	err := runner.Permanent(errors.New("2 errors occurred: * " + message + " * " + message))
	named := a.Explain(err, &Explainer{})

	require.EqualError(t, named, "Widget/demo/w1: "+message+"; Widget/demo/w2: "+message)
	require.True(t, runner.IsPermanent(named))
	other := errors.New("something else")
	require.Equal(t, other, a.Explain(other, nil))
	already := errors.New("Widget/demo/w1: " + message + "; Widget/demo/w2: " + message)
	require.Equal(t, already, a.Explain(already, nil))
	require.NoError(t, a.Explain(nil, nil))
}

// What took most of the time is told, also when it was over at the end.
func TestTimeSpentOnAWebhookIsTold(t *testing.T) {
	fault := webhook.Fault{Kind: webhook.Admission, Webhook: "v.example.io", Namespace: "ns", Service: "w"}
	timeout := &runner.TimeoutError{After: 5 * time.Minute, For: "deployment/x to be ready"}
	for name, tc := range map[string]struct {
		err  error
		held time.Duration
		want string
	}{
		"most of it":      {timeout, 4*time.Minute + 56*time.Second, `; 4m56s of that were spent on webhook "v.example.io" (Service ns/w)`},
		"little of it":    {timeout, 10 * time.Second, ""},
		"another failure": {errors.New("quota exceeded"), 4 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Attempt{ctx: t.Context()}
			a.note(hold.Notice{Event: hold.Released, Fault: fault, Held: tc.held})

			err := a.Explain(tc.err, &Explainer{})

			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.err.Error()+tc.want, err.Error())
		})
	}
}
