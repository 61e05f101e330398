package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// Attempt is one run of a step's action. It holds the run's requests for webhooks,
// tells the reporter of it, ends them with the run's context, and knows what became
// of them.
type Attempt struct {
	// Hold holds requests; without a Gate nothing is held.
	Hold hold.Transport
	// Sends is called before each write; it may be nil.
	Sends func()

	ctx      context.Context
	reporter runner.Reporter

	mu sync.Mutex
	// denials are what webhooks refused, in the order of the answers.
	denials []hold.Notice
	// inVain is the first hold that was given up.
	inVain *hold.Error
	// longest is the longest hold, and fault its cause.
	longest time.Duration
	fault   webhook.Fault
}

// Begin returns an attempt whose requests end with ctx.
func Begin(ctx context.Context, r runner.Reporter) *Attempt {
	return &Attempt{ctx: ctx, reporter: r}
}

// note keeps what a hold tells of that an error of the attempt may have to say.
func (a *Attempt) note(n hold.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.Event == hold.Denied {
		a.denials = append(a.denials, n)
		return
	}
	if n.Held > a.longest {
		a.longest, a.fault = n.Held, n.Fault
	}
	if held := (*hold.Error)(nil); a.inVain == nil && errors.As(n.Err, &held) {
		a.inVain = held
	}
}

// Explain makes the error with which the attempt ended say what was held, for which
// webhook, and which objects webhooks denied.
func (a *Attempt) Explain(err error, x *Explainer) error {
	if err == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nameDenied(a.nameHeld(err, x))
}

// nameDenied adds to err the objects that it is about, where it does not name them:
// the API server's answer does not, and Helm adds nothing. The caller holds mu.
func (a *Attempt) nameDenied(err error) error {
	var texts []string
	for _, n := range a.denials {
		text := n.Request.String() + ": " + n.Fault.Message
		if strings.Contains(err.Error(), n.Fault.Message) && !strings.Contains(err.Error(), text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return err
	}
	return kubeerr.Reword(strings.Join(texts, "; "), err)
}

// nameHeld makes an error say which webhook requests were held for when the
// attempt ended: first, for that is why a wait or a hook came to no end, unless
// another attempt would fail by itself. The caller holds mu.
func (a *Attempt) nameHeld(err error, x *Explainer) error {
	if _, held := errors.AsType[*hold.Error](err); held {
		return x.Explain(err)
	}
	timeout := (*runner.TimeoutError)(nil)
	late := errors.As(err, &timeout)
	switch {
	case a.ctx.Err() != nil && !late:
		return err // somebody stopped the run
	case a.inVain != nil && late:
		why := *a.inVain
		why.Cause = timeout
		return both(x.Explain(&why), err)
	case a.inVain != nil && !runner.IsPermanent(err):
		return both(x.stopped(a.inVain), err)
	case a.inVain != nil:
		return both(err, x.stopped(a.inVain))
	case late && timeout.After > 0 && a.longest > timeout.After/2:
		return fmt.Errorf("%w; %s of that were spent on %s", err, a.longest.Round(time.Second), subject(a.fault))
	}
	return err
}

// both is what ended a step, and what else its user must know.
func both(first, second error) error {
	return kubeerr.Reword(first.Error()+"\n"+second.Error(), first, second)
}
