package hold

import (
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Event says what a Notice tells.
type Event string

// What a Transport tells of a request.
const (
	// Held: it waits for a webhook, or for another reason than before.
	Held Event = "held"
	// Released: it was answered, by the webhook that it was held for or by somebody
	// before that, or it was given up.
	Released Event = "released"
	// Denied: a webhook denied it.
	Denied Event = "refused"
	// StatusChanged: the webhook that it is held for stands otherwise than before. Each
	// transport tells it once of each webhook, however many requests wait for that.
	StatusChanged Event = "stands"
)

// Notice is what a Transport tells about one request.
type Notice struct {
	Event   Event
	Request Request
	// Fault is why the request is, or was last, held; or the denial.
	Fault webhook.Fault
	// Held is how long the request has been held for this webhook, and Sends
	// how often it was sent for it.
	Held  time.Duration
	Sends int
	// Status is how the webhook stands, in StatusChanged; it was read from the cluster.
	Status survey.Status
	// Err is set when the request was given up.
	Err error
}

// Error says that a held request was given up.
type Error struct {
	Request Request
	// Fault is the last answer.
	Fault webhook.Fault
	// Held is how long the request was held, and Sends how often it was sent.
	Held  time.Duration
	Sends int
	// Limit is the bound that was reached; 0 when the hold ended for another reason.
	Limit time.Duration
	// Cause is what ended the hold when no bound did: a cancelled context.
	Cause error
	// Status is how the webhook stood at the end, with its owner; its ladder
	// is empty when nothing could be read.
	Status survey.Status
}

func (e *Error) Error() string {
	what := "webhook"
	if e.Fault.Kind == webhook.Conversion {
		what = "conversion webhook"
	}
	if e.Fault.Kind == webhook.Server {
		return fmt.Sprintf("%s was held %s for the API server: %s", e.Request, round(e.Held), e.Fault.Message)
	}
	s := fmt.Sprintf("%s was held %s for %s %q", e.Request, round(e.Held), what, e.Fault.Webhook)
	if key := e.Fault.ServiceKey(); key != "" {
		s += " (Service " + key + ")"
	}
	s += ", which never answered: " + e.Fault.Cause
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// WebhookFault is the last answer, for webhook.ClassifyError.
func (e *Error) WebhookFault() webhook.Fault { return e.Fault }

// Unwrap returns the cause that ended the hold, if it was not a bound.
func (e *Error) Unwrap() error { return e.Cause }

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
