package steps

import (
	"errors"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// Failure is a kind of failure of a run or a step, by what went wrong and not by where.
type Failure string

// The kinds of failures.
const (
	// FailureUnreachable: an API server gives no answer, or is somebody else by its
	// certificate.
	FailureUnreachable Failure = "unreachable"
	// FailureRefused: it does not take the credentials, or the kubeconfig is none to be used.
	FailureRefused Failure = "refused"
	// FailureMoved: the kubeconfig leads elsewhere than before.
	FailureMoved Failure = "moved"
	// FailureLocked: another run has the plan's lock, or took it.
	FailureLocked Failure = "locked"
	// FailureWebhook: a webhook did not answer in the time that a request was held.
	FailureWebhook Failure = "webhook"
	// FailureTimeout: something else took too long.
	FailureTimeout Failure = "timeout"
	// FailureForbidden: rights are missing.
	FailureForbidden Failure = "forbidden"
	// FailurePlan: the plan is wrong.
	FailurePlan Failure = "plan"
	// FailureOther is any other.
	FailureOther Failure = ""
)

// FailureOf tells of which kind an error of New or of an action is.
func FailureOf(err error) Failure {
	for _, f := range []struct {
		kind Failure
		is   func(error) bool
	}{
		{FailureMoved, isMoved},
		{FailureUnreachable, isUnreachable},
		{FailureRefused, isRefused},
		{FailureLocked, isLocked},
		{FailureWebhook, isHeld},
		{FailurePlan, isA[document.Diagnostics]},
		{FailureForbidden, isForbidden},
		{FailureTimeout, isA[*runner.TimeoutError]},
	} {
		if f.is(err) {
			return f.kind
		}
	}
	return FailureOther
}

func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

func isMoved(err error) bool { return isA[*cluster.PinError](err) || isA[*cluster.MovedError](err) }

// isUnreachable also is about the cluster that has the kubeconfig.
func isUnreachable(err error) bool {
	return isA[*cluster.UnreachableError](err) || isA[*cluster.AnswerError](err) || isA[*cluster.GivenError](err) && (isA[*url.Error](err) || isA[*net.OpError](err))
}

func isRefused(err error) bool {
	return isA[*cluster.RefusedError](err) || isA[*cluster.GivenError](err) || apierrors.IsUnauthorized(err)
}

func isLocked(err error) bool { return isA[*ledger.HeldError](err) || isA[*ledger.LostError](err) }

// isHeld reports whether a request was held for a webhook in vain. The API server itself is
// none.
func isHeld(err error) bool {
	held, is := errors.AsType[*hold.Error](err)
	return is && held.Fault.Kind != webhook.Server
}

func isForbidden(err error) bool {
	if isA[*ledger.DeniedError](err) {
		return true
	}
	status := apierrors.APIStatus(nil) // errors.AsType wants an error
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonForbidden && !kubeerr.Denied(err)
}
