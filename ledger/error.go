package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// HeldError says that another run has the lock.
type HeldError struct {
	Plan   string
	Holder Holder
	// Waited is how long it was waited for.
	Waited time.Duration
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("plan %s is being run by another: %s, last heard of at %s", e.Plan, e.Holder, e.Holder.Renewed.UTC().Format(time.RFC3339))
	if e.Waited > 0 {
		text += fmt.Sprintf("; waited %s for it", e.Waited.Round(time.Second))
	}
	return text
}

// Hint says what to do about it.
func (e *HeldError) Hint() string {
	return "--lock-wait 5m waits for it to end; kplan unlock takes the lock away from a run that is gone"
}

// LostError says that a run's lock is another's, or nobody's, while it runs.
type LostError struct {
	Plan string
	// By has the lock now; nil when nobody has.
	By *Holder
	// Err is why it could not be renewed in time; nil when somebody took it.
	Err error
}

func (e *LostError) Error() string {
	switch {
	case e.By != nil:
		return fmt.Sprintf("lost the lock of plan %s to another run: %s", e.Plan, e.By)
	case e.Err != nil:
		return fmt.Sprintf("lost the lock of plan %s: it could not be renewed for %s: %v", e.Plan, leaseTime, e.Err)
	}
	return fmt.Sprintf("lost the lock of plan %s: it was taken away", e.Plan)
}

func (e *LostError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *LostError) Hint() string {
	return "what was done stays as it is; run the plan again when nobody else runs it (kplan unlock shows who does)"
}

// Final says that nothing of the run may start any more, its finally steps included.
func (e *LostError) Final() bool { return true }

// DeniedError says that this user cannot keep a plan's lock on a cluster.
type DeniedError struct {
	Plan, Namespace string
	// Missing is what would have to be there, or allowed.
	Missing string
	Err     error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("no lock can be kept for plan %s: %s: %v", e.Plan, e.Missing, e.Err)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// denied says what is missing when the API server refuses to keep a lock. Any other
// error it returns as it is.
func (p Place) denied(err error) error {
	denied := &DeniedError{Plan: p.Plan, Namespace: p.Namespace, Err: err}
	var made *namespaceError
	switch {
	case errors.As(err, &made):
		denied.Missing = fmt.Sprintf("there is no namespace %s, and it cannot be made; make it, or name another one in state.namespace", p.Namespace)
	case apierrors.IsForbidden(err):
		denied.Missing = fmt.Sprintf("it takes the right to get, create and update leases.coordination.k8s.io in namespace %s", p.Namespace)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), isRefused(err):
		denied.Missing = fmt.Sprintf("the cluster takes no Lease in namespace %s", p.Namespace)
	default:
		return fmt.Errorf("taking the lock of plan %s: %w", p.Plan, err)
	}
	return denied
}

// namespaceError says that the namespace of a lock could not be made.
type namespaceError struct{ error }

func (e *namespaceError) Unwrap() error { return e.error }

// isLate reports whether a write came after another's: what it was made of is old.
func isLate(err error) bool {
	return errors.Is(err, errLate) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

var errLate = errors.New("another was quicker")

// isRefused reports whether an admission webhook, or a rule, keeps an object from
// being written.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook")
}

// isAway reports whether an API server may answer otherwise soon: it did not at all,
// or says that it cannot just now.
func isAway(err error) bool {
	if isRefused(err) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || status.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
}
