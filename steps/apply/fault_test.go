package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestApplyRepeatsWhatPassesByItself(t *testing.T) {
	var left atomic.Int32
	for name, fault := range map[string]metav1.Status{
		"an overloaded server":         {Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests"},
		"a server that goes down":      {Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "apiserver is shutting down"},
		"a change in between":          {Code: 409, Reason: metav1.StatusReasonConflict, Message: "the object has been modified"},
		"etcd that elects a leader":    {Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcdserver: leader changed"},
		"an answer that took too long": {Code: 504, Reason: metav1.StatusReasonTimeout, Message: "request did not complete"},
	} {
		t.Run(name, func(t *testing.T) {
			left.Store(2)
			fault.TypeMeta, fault.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, metav1.StatusFailure
			body, err := json.Marshal(fault)
			require.NoError(t, err)
			f := onLab(t, func(rt http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodPatch || left.Add(-1) < 0 {
						return rt.RoundTrip(r)
					}
					return &http.Response{
						StatusCode: int(fault.Code), Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(string(body))), Request: r,
					}, nil
				})
			})
			r, err := f.apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
			require.NoError(t, err)
			require.Equal(t, "1 created", r.result(t).Message)
		})
	}
}

// What is held for a webhook must not keep back the operator that brings the
// webhook, be it in a later phase and behind more held requests than may be in
// flight.
func TestApplyGoesOnWhileRequestsAreHeld(t *testing.T) {
	operator := make(chan struct{})
	f := onLab(t, func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method != http.MethodPatch:
			case strings.Contains(r.URL.Path, "/configmaps/"):
				select {
				case <-operator:
				case <-r.Context().Done():
					return nil, context.Cause(r.Context())
				}
			case strings.Contains(r.URL.Path, "/deployments/"):
				defer close(operator)
			}
			return rt.RoundTrip(r)
		})
	})
	var text strings.Builder
	for i := range inFlight + 4 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: held%d}}\n", i)
	}
	text.WriteString(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator}
spec:
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}
`)
	r, err := f.apply(t, text.String())
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d created", inFlight+5), r.result(t).Message)
}

// However many objects are held for a webhook, what it needs is sent at once: each
// gives its place in flight back as soon as it is held.
func TestApplyHoldsBackNothing(t *testing.T) {
	var operator atomic.Bool
	late := apierrors.NewInternalError(errors.New(`failed calling webhook "v.example.io": failed to call webhook: ` +
		`Post "https://w.ns.svc:443/v?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused`)).Status()
	late.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	answer, err := json.Marshal(late)
	require.NoError(t, err)
	gate := hold.NewGate(nil)
	f := onLab(t, func(rt http.RoundTripper) http.RoundTripper {
		return &hold.Transport{Gate: gate, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/configmaps/") && !operator.Load() {
				return &http.Response{
					StatusCode: int(late.Code), Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(bytes.NewReader(answer)), Request: r,
				}, nil
			}
			resp, err := rt.RoundTrip(r)
			if strings.Contains(r.URL.Path, "/services/") {
				operator.Store(true)
			}
			return resp, err
		})}
	})
	var text strings.Builder
	const many = 40 * inFlight // by head starts alone this takes longer than the step may
	for i := range many {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: held%d}}\n", i)
	}
	text.WriteString("---\n{apiVersion: v1, kind: Service, metadata: {name: operator}, spec: {ports: [{port: 443}]}}\n")

	r, err := f.apply(t, text.String())

	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d created", many+1), r.result(t).Message)
}

func TestApplyStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := &runner.TimeoutError{After: time.Minute}
	f := onLab(t, func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch {
				return rt.RoundTrip(r)
			}
			cancel(cause)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
	})
	_, err := f.applyIn(ctx, t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	require.ErrorIs(t, err, error(cause))
	require.EqualError(t, err, "timed out after 1m; not applied yet: ConfigMap/"+f.namespace+"/a")
}
