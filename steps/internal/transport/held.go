package transport

import (
	"errors"
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// heldNotes is what an attempt's holds came to. The attempt's mutex guards it.
type heldNotes struct {
	// inVain is the first hold that was given up.
	inVain *hold.Error
	// longest is the longest hold, which fault was the cause of.
	longest time.Duration
	fault   webhook.Fault
}

// released takes note of a hold that has ended.
func (a *Attempt) released(n hold.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.Held > a.held.longest {
		a.held.longest, a.held.fault = n.Held, n.Fault
	}
	if held := (*hold.Error)(nil); a.held.inVain == nil && errors.As(n.Err, &held) {
		a.held.inVain = held
	}
}

// NameHeld makes an error say which webhook requests were held for when the
// attempt ended: first, for that is why a wait or a hook came to no end, unless
// another attempt would fail by itself.
func (a *Attempt) NameHeld(err error, x *Explainer) error {
	var held *hold.Error
	if err == nil || errors.As(err, &held) {
		return x.Explain(err)
	}
	a.mu.Lock()
	notes := a.held
	a.mu.Unlock()
	timeout := (*runner.TimeoutError)(nil)
	late := errors.As(err, &timeout)
	switch {
	case a.Context.Err() != nil && !late:
		return err // somebody stopped the run
	case notes.inVain != nil && late:
		why := *notes.inVain
		why.Cause = timeout
		return &whileHeld{x.Explain(&why), err}
	case notes.inVain != nil && !runner.IsPermanent(err):
		return &whileHeld{x.stopped(notes.inVain), err}
	case notes.inVain != nil:
		return &whileHeld{err, x.stopped(notes.inVain)}
	case late && timeout.After > 0 && notes.longest > timeout.After/2:
		return fmt.Errorf("%w; %s of that were spent on %s", err, notes.longest.Round(time.Second), subject(notes.fault))
	}
	return err
}

// stopped explains a hold that something else than its time ended.
func (x *Explainer) stopped(held *hold.Error) error {
	text := fmt.Sprintf("%s was held for %s: %s", held.Request, subject(held.Fault), x.last(held))
	return runner.WithHint(&stoppedHold{text, held}, x.hint(held))
}

// stoppedHold is a hold.Error in other words.
type stoppedHold struct {
	text string
	held *hold.Error
}

func (e *stoppedHold) Error() string               { return e.text }
func (e *stoppedHold) WebhookFault() webhook.Fault { return e.held.Fault }

// whileHeld is what ended a step, and what else its user must know.
type whileHeld struct{ first, second error }

func (e *whileHeld) Error() string   { return e.first.Error() + "\n" + e.second.Error() }
func (e *whileHeld) Unwrap() []error { return []error{e.first, e.second} }
