package webhookgate

import (
	"context"
	"sync"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// view is what a step follows of the survey, for many goroutines that wait.
type view struct {
	*survey.Subscription
	// wants tells which webhooks are followed.
	wants func(webhook.Entry) bool

	mu sync.Mutex
	// changes is closed, and made anew, with every change.
	changes chan struct{}
}

// follow begins to follow what the step means.
func (a *run) follow(wants func(webhook.Entry) bool) *view {
	v := &view{wants: wants, changes: make(chan struct{})}
	v.Subscription = a.survey.Subscribe(survey.Target{Match: wants, Conversions: a.target.conversions}, v.changed)
	return v
}

func (v *view) changed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changes)
	v.changes = make(chan struct{})
}

// next returns a function that waits for the first change after now.
func (v *view) next() func(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	changes := v.changes
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changes:
			return nil
		}
	}
}
