package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// mostNamed is how many objects an error names.
const mostNamed = 5

// faults are the failures of several objects, told in one line.
type faults []error

func (f faults) err() error {
	if len(f) == 1 {
		return f[0]
	}
	var parts []string
	for _, err := range f[:min(len(f), mostNamed)] {
		parts = append(parts, err.Error())
	}
	text := fmt.Sprintf("%d objects failed: %s", len(f), strings.Join(parts, "; "))
	if more := len(f) - mostNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return kubeerr.Reword(text, f...)
}

// ended tells what was under way when the context ended.
func (r *run) ended(cause, err error) error {
	if timeout := (*runner.TimeoutError)(nil); errors.As(err, &timeout) && timeout.For != "" {
		return err // says what it waited for
	}
	if len(r.errs) > 0 && !errors.Is(r.errs[0], context.Canceled) && !errors.Is(r.errs[0], context.DeadlineExceeded) && !errors.Is(r.errs[0], cause) {
		return fmt.Errorf("%w; before, %w", cause, r.errs.err())
	}
	var open []string
	for _, it := range r.items {
		if !it.done {
			open = append(open, it.ID())
		}
	}
	if len(open) == 0 {
		return cause
	}
	slices.Sort(open)
	more := ""
	if len(open) > mostNamed {
		more = fmt.Sprintf(" and %d more", len(open)-mostNamed)
		open = open[:mostNamed]
	}
	return fmt.Errorf("%w; not applied yet: %s%s", cause, strings.Join(open, ", "), more)
}

// transient reports whether a fault passes by itself. A webhook that cannot be
// called is none: the transport holds such requests, so one that comes here was
// given up.
func transient(err error, it *item) bool {
	switch {
	case kubeerr.Denied(err), len(kubeerr.Owners(err)) > 0:
		return false
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return true
	case apierrors.IsNotFound(err) && it.fresh:
		return about(err) != "namespaces"
	case apierrors.IsInternalError(err):
		// No type tells these from others; the words are etcd's (server/etcdserver/errors).
		return strings.Contains(err.Error(), "etcdserver: leader changed") || strings.Contains(err.Error(), "etcdserver: request timed out")
	case apierrors.IsForbidden(err) && it.Kind() == schema.GroupKind{Kind: "Pod"}:
		// The default ServiceAccount of a new namespace comes a moment after it
		// (k8s.io/kubernetes plugin/pkg/admission/serviceaccount).
		return strings.Contains(err.Error(), "error looking up service account")
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF)
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
