package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/transport"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// Errors as clients and API servers make them, and the kinds of failure that
// they are.
func TestClassify(t *testing.T) {
	var (
		maps     = schema.GroupResource{Resource: "configmaps"}
		refused  = dial(t)
		timedOut = &runner.TimeoutError{After: time.Second, For: "pod/a to exist"}
		failed   = &watch.FailedError{Reason: "BackoffLimitExceeded"}
		race     = webhook.Fault{Kind: webhook.Admission, Class: webhook.Race, Webhook: "a.example.io", Message: "failed calling webhook"}
		server   = webhook.Fault{Kind: webhook.Server, Class: webhook.Race, Message: "apiserver is shutting down"}
		inVain   = func(f webhook.Fault) error {
			held := &hold.Error{Fault: f, Limit: time.Minute}
			return (&transport.Explainer{Owners: diagnosis.Owners{Plan: &plan.Plan{}}, Gate: hold.NewGate(nil)}).Explain(&url.Error{Op: "Patch", URL: "https://x", Err: held})
		}
		status = func(code int32, reason metav1.StatusReason, message string) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: "Failure", Code: code, Reason: reason, Message: message}}
		}
	)
	for name, c := range map[string]struct {
		err  error
		want []plan.RetryOn
	}{
		"a hold that ran into its bound":           {inVain(race), []plan.RetryOn{plan.RetryWebhook}},
		"a hold for the API server":                {inVain(server), []plan.RetryOn{plan.RetryNetwork}},
		"a webhook that cannot be called, no hold": {status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "a.example.io": failed to call webhook: Post "https://a.b.svc:443/v?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused`), []plan.RetryOn{plan.RetryWebhook}},
		"a denial":                         {status(409, metav1.StatusReasonConflict, `admission webhook "a.example.io" denied the request: no`), nil},
		"a server that does not listen":    {fmt.Errorf("reading: %w", refused), []plan.RetryOn{plan.RetryNetwork}},
		"a cluster that does not answer":   {&cluster.UnreachableError{Cluster: "cluster a", Cause: errors.New("no answer within 10s")}, []plan.RetryOn{plan.RetryNetwork}},
		"credentials that were revoked":    {&url.Error{Op: "Get", URL: "https://x", Err: &cluster.RefusedError{}}, []plan.RetryOn{plan.RetryNetwork}},
		"a kubeconfig that is not there":   {fmt.Errorf("cluster a: %w", &cluster.AbsentError{What: "Secret a/b"}), []plan.RetryOn{plan.RetryNotReady}},
		"a name that does not resolve":     {resolve(t), []plan.RetryOn{plan.RetryNetwork}},
		"a connection that ended":          {fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), []plan.RetryOn{plan.RetryNetwork}},
		"an API server that stops":         {status(503, metav1.StatusReasonServiceUnavailable, "apiserver is shutting down"), []plan.RetryOn{plan.RetryNetwork}},
		"an API server that asks for time": {apierrors.NewTooManyRequests("slow down", 1), []plan.RetryOn{plan.RetryNetwork}},
		"somebody else's change":           {apierrors.NewConflict(maps, "a", errors.New("the object has been modified")), []plan.RetryOn{plan.RetryConflict}},
		"somebody else's field": {
			kubeerr.Explain(apierrors.NewApplyConflict([]metav1.StatusCause{{
				Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "helm" using v1`, Field: ".data.a",
			}}, "Apply failed with 1 conflict"), kubeerr.Op{}), []plan.RetryOn{plan.RetryConflict},
		},
		"a condition that did not come": {timedOut, []plan.RetryOn{plan.RetryTimeout}},
		"a deadline":                    {fmt.Errorf("waiting: %w", context.DeadlineExceeded), []plan.RetryOn{plan.RetryTimeout}},
		"an object that failed":         {fmt.Errorf("failed pre-install: %w", failed), []plan.RetryOn{plan.RetryNotReady}},
		"several at once": {
			errors.Join(fmt.Errorf("a: %w", failed), utilerrors.NewAggregate([]error{refused, inVain(race)})),
			[]plan.RetryOn{plan.RetryNetwork, plan.RetryNotReady, plan.RetryWebhook},
		},
		"what another attempt cannot mend": {runner.Permanent(fmt.Errorf("a: %w", failed)), nil},
		"a request that was cancelled":     {&url.Error{Op: "Get", URL: "https://x", Err: context.Canceled}, nil},
		"a file that is not there":         {missing(), nil},
		"a forbidden verb":                 {apierrors.NewForbidden(maps, "a", errors.New("no")), nil},
		"anything else":                    {errors.New("boom"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := classify(c.err)
			require.ElementsMatch(t, c.want, runner.ClassesOf(err))
			require.EqualError(t, err, c.err.Error())
			require.ErrorIs(t, err, c.err)
		})
	}
	require.NoError(t, classify(nil))
}

// dial is the error of a request to a port at which nobody listens.
func dial(t *testing.T) error {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return get(t, s.URL)
}

// resolve is the error of a request to a name that does not exist.
func resolve(t *testing.T) error {
	t.Helper()
	return get(t, "http://kplan.invalid")
}

func get(t *testing.T, address string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
	if err == nil {
		resp.Body.Close()
	}
	require.Error(t, err)
	return err
}

func missing() error {
	_, err := os.Stat("there/is/no/such/file")
	return err
}
