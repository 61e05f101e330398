package steps

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/output"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
)

// classifiedError is an error that knows of which kinds the failure is.
type classifiedError struct {
	error
	classes []plan.RetryOn
}

func (e *classifiedError) Unwrap() error { return e.error }

// Classes implements the interface that runner.ClassesOf looks for.
func (e *classifiedError) Classes() []plan.RetryOn { return e.classes }

// classify makes an action's error say of which kinds the failure is: one for
// each error that it joins. A failure that another attempt cannot mend is of no
// kind, but for a conflict, whose other side may give in.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var found []plan.RetryOn
	for _, f := range webhook.Faults(err) {
		switch {
		case f.Class == webhook.None, f.Class == webhook.Denied:
		case f.Kind == webhook.Server:
			found = append(found, plan.RetryNetwork)
		default:
			found = append(found, plan.RetryWebhook)
		}
	}
	found = append(found, classesOf(err)...)
	if runner.IsPermanent(err) {
		found = slices.DeleteFunc(found, func(c plan.RetryOn) bool { return c != plan.RetryConflict })
	}
	slices.Sort(found)
	return &classifiedError{err, slices.Compact(found)}
}

// classesOf returns the kinds of the errors that err joins or wraps, but for those of
// webhooks.
func classesOf(err error) []plan.RetryOn {
	//nolint:errorlint // this looks through every wrapping
	switch e := err.(type) {
	case interface{ WebhookFault() webhook.Fault }: // told above
		return nil
	case *runner.TimeoutError:
		return []plan.RetryOn{plan.RetryTimeout}
	case *watch.FailedError:
		return []plan.RetryOn{plan.RetryNotReady}
	case *cluster.AbsentError, *output.MissingError:
		return []plan.RetryOn{plan.RetryNotReady}
	case *source.UnreachableError, *cluster.UnreachableError, *cluster.RefusedError, *cluster.MovedError:
		return []plan.RetryOn{plan.RetryNetwork}
	case apierrors.APIStatus:
		return ofStatus(err)
	case *url.Error, *net.OpError, *net.DNSError:
		if inner := classesOf(errors.Unwrap(err)); len(inner) > 0 || errors.Is(err, context.Canceled) {
			return inner
		}
		return []plan.RetryOn{plan.RetryNetwork}
	case interface{ Unwrap() []error }:
		return all(e.Unwrap())
	case interface{ Errors() []error }: // k8s.io/apimachinery/pkg/util/errors
		return all(e.Errors())
	case interface{ Unwrap() error }:
		return classesOf(e.Unwrap())
	}
	switch err { //nolint:errorlint // unwrapped above
	case context.DeadlineExceeded:
		return []plan.RetryOn{plan.RetryTimeout}
	case io.EOF, io.ErrUnexpectedEOF:
		return []plan.RetryOn{plan.RetryNetwork}
	}
	return nil
}

func all(errs []error) []plan.RetryOn {
	var found []plan.RetryOn
	for _, err := range errs {
		found = append(found, classesOf(err)...)
	}
	return found
}

// ofStatus is the kind of what an API server answered.
func ofStatus(err error) []plan.RetryOn {
	switch {
	case kubeerr.Denied(err): // with any code that the webhook likes
		return nil
	case apierrors.IsConflict(err):
		return []plan.RetryOn{plan.RetryConflict}
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err):
		return []plan.RetryOn{plan.RetryNetwork}
	}
	return nil
}
