package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/plan"
)

// Action does the work of one step, once. It is made anew for each run and
// used for all attempts of its step, one at a time; that of a deferred step is made
// for each attempt.
//
// Run returns nil when the work is done. It must return soon after ctx ends,
// with context.Cause(ctx) or an error that wraps it, and must not return while
// a goroutine that it started still runs. An error never names the step or its
// kind: the runner does, once. An error with a method Wake() <-chan struct{}
// ends the delay before the next attempt early, when that channel is ready.
type Action interface {
	Run(ctx context.Context, r Reporter) error
}

// Resolver makes the action of a step. It is called once for every step before
// the first one starts, so that a plan which cannot run fails early. For a late
// step it is called when an attempt starts, in the goroutine of that.
type Resolver func(plan.Step) (Action, error)

// Reporter takes what an action has to say while it runs. It is safe for
// concurrent use.
type Reporter interface {
	// Report hands over one fact. It waits only while the run's inbox is full,
	// never for anybody to look at it. Facts that come after Run has returned
	// are dropped.
	Report(Report)
}

// Report is one fact that an action tells; the runner turns it into an Event.
type Report struct {
	// Type is TypeProgress, TypeHeld, TypeReleased, TypeWebhook, TypeHook, TypeLog,
	// TypeOutputs or TypeResult.
	Type Type
	// Message is for people: one line, but for a log.
	Message string
	// Object is what it is about, as Kind/namespace/name; see Event.
	Object string
	// Of is the object that is waited for, whose pod says a log; see Event.
	Of string
	// Done and Total count objects, where the action knows.
	Done, Total int
	// Revision is the Helm release's revision: in progress when it was recorded, and
	// in a result.
	Revision int
	// Webhook says which webhook holds a request, in held and released, and how
	// one stands, in webhook.
	Webhook *Webhook
	// Hook is the hook of a chart, in hook.
	Hook *Hook
	// Error is why a held request was given up, in released, why a hook failed, and why
	// something could not be done ahead of time.
	Error string
	// Unchanged, in a result, says that there was nothing to do.
	Unchanged bool
	// Objects, Release and Digest are kept in the record of the run; see Event.
	Objects []Applied
	Release *Release
	Digest  string
	// Outputs are values for later steps, by name, in outputs: what JSON can hold.
	// They count once the step has succeeded. Those that Sensitive names are not
	// shown; whoever reports them sees to it that Runner.Redact knows them before.
	Outputs   map[string]any
	Sensitive []string
}

// APIServer is the Name of a Webhook that is none: the API server itself does
// not take the request yet.
const APIServer = "API server"

// Webhook is the webhook that a request was held for, or that a step waits for.
type Webhook struct {
	// Name is the webhook's name as the API server gives it, e.g. "vmalert.victoriametrics.com",
	// or APIServer; it is empty when the API server does not say which webhook it is.
	Name string `json:"name"`
	// Service is the Service behind it, as namespace/name; empty when it is not known.
	Service string `json:"service,omitempty"`
	// Cause is why the webhook could not answer, in the API server's words; in
	// webhook events why it stands at Rung.
	Cause string `json:"cause,omitempty"`
	// Explanation says Cause in words that take no knowledge of Kubernetes; empty
	// when there is nothing to add.
	Explanation string `json:"explanation,omitempty"`
	// Kind is mutating, validating or conversion, and Configuration and Owner say
	// what configures the webhook and who brought that, in webhook events. A mutating
	// and a validating one may share name and configuration.
	Kind          string `json:"kind,omitempty"`
	Configuration string `json:"configuration,omitempty"`
	Owner         string `json:"owner,omitempty"`
	// Rung is the lowest rung of its ladder that the webhook has not reached,
	// the highest one when it has reached all, in webhook events: configured,
	// trusted, routed, backed, serving or admitting.
	Rung string `json:"rung,omitempty"`
	// State says how Rung stands: waiting, ready, failed or unknown.
	State string `json:"state,omitempty"`
	// HeldSeconds is how long the request was held, in released events.
	HeldSeconds float64 `json:"held_seconds,omitempty"`
	// Sends counts how often the request was sent, the last one included, in released events.
	Sends int `json:"sends,omitempty"`
}

// TimeoutError says that something did not come in time: a webhook, a
// condition, or the step as a whole.
type TimeoutError struct {
	// After is the bound that was reached.
	After time.Duration
	// For is what was waited for, e.g. `webhook "x" to answer`.
	For string
	// Last is the last reading, e.g. "endpoints 0/1, connection refused".
	Last string
	// Cause is what told of the bound, such as the cause of a context; it may be nil.
	Cause error
}

// Unwrap returns Cause.
func (e *TimeoutError) Unwrap() error { return e.Cause }

// Classes implements the interface that ClassesOf looks for.
func (e *TimeoutError) Classes() []plan.RetryOn { return []plan.RetryOn{plan.RetryTimeout} }

func (e *TimeoutError) Error() string {
	s := "timed out after " + brief(e.After)
	if e.For != "" {
		s += " waiting for " + e.For
	}
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}

// brief writes a duration as people do: 5m rather than 5m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Permanent marks err as one that another attempt cannot mend.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// IsPermanent reports whether another attempt cannot mend err.
func IsPermanent(err error) bool {
	_, is := errors.AsType[*permanentError](err)
	return is
}

// WithHint adds to err what the user can do about it.
func WithHint(err error, hint string) error {
	if err == nil || hint == "" {
		return err
	}
	return &hintError{err, hint}
}

type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }
func (e *hintError) Hint() string  { return e.hint }

// HintOf returns the hint of the outermost error in err's chain that has one; "" without.
func HintOf(err error) string {
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		return hinter.Hint()
	}
	return ""
}
