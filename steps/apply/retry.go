package apply

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

const (
	// outage is how long an API server is waited for that does not answer, or takes no
	// more requests: it is restarted, upgraded, or another one elected.
	outage = 3 * time.Minute
	// patience is how long other faults that pass by themselves are endured.
	patience = 30 * time.Second
)

// endurance repeats one request while it fails for what passes by itself.
type endurance struct {
	since time.Time // of the first fault
	wait  backoff.BackOff
}

// again waits before the next try; false when there is to be none. it is the object that
// the request is about; nil for another request.
func (e *endurance) again(ctx context.Context, s *cluster.Session, err error, it *item) bool {
	if e.wait == nil {
		e.since, e.wait = time.Now(), newBackOff()
	}
	bound := time.Duration(0)
	switch {
	case away(err):
		bound = outage
	case passes(err, it), apierrors.IsUnauthorized(err) && renews(s):
		bound = patience
	}
	return ctx.Err() == nil && time.Since(e.since) < bound && watch.Pause(ctx, e.wait.NextBackOff()) == nil
}

// repeated does what reads or writes something that is no object of the step.
func repeated[T any](ctx context.Context, s *cluster.Session, do func() (T, error)) (T, error) {
	var e endurance
	for {
		result, err := do()
		if err == nil || !e.again(ctx, s, err, nil) {
			return result, err
		}
	}
}

// renews reports whether the next request may come with other credentials than one
// that was refused: a program gives them, or a file in which they are replaced.
func renews(s *cluster.Session) bool {
	c := s.Config
	return c.ExecProvider != nil || c.AuthProvider != nil || c.BearerTokenFile != ""
}

// away reports whether the API server did not answer, or not now. A webhook that cannot
// be called is another matter: the transport holds such requests, so one that comes here
// was given up.
func away(err error) bool {
	switch {
	case kubeerr.Denied(err), len(kubeerr.Owners(err)) > 0:
		return false
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return true
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

// passes reports whether another fault passes by itself.
func passes(err error, it *item) bool {
	switch {
	case kubeerr.Denied(err), len(kubeerr.Owners(err)) > 0:
		return false
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return true
	case apierrors.IsNotFound(err) && it != nil && it.fresh:
		return about(err) != "namespaces"
	case apierrors.IsInternalError(err):
		// No type tells these from others; the words are etcd's (server/etcdserver/errors).
		return strings.Contains(err.Error(), "etcdserver: leader changed") || strings.Contains(err.Error(), "etcdserver: request timed out")
	case apierrors.IsForbidden(err) && it != nil && it.Kind() == podKind:
		// The default ServiceAccount of a new namespace comes a moment after it
		// (k8s.io/kubernetes plugin/pkg/admission/serviceaccount).
		return strings.Contains(err.Error(), "error looking up service account")
	}
	return false
}

// about is the kind that an error is about; "" when that is not known.
func about(err error) string {
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Kind
	}
	return ""
}

func newBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(3*time.Second), backoff.WithMaxElapsedTime(0),
	)
}
