// Package watch waits until objects of a cluster are as they should be, and until
// the API server serves a kind: by list and watch, or by polling where watching is
// not allowed. It judges whether an object is ready.
//
// It changes nothing in a cluster, and knows nothing of plans.
package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/stall"
	"github.com/kplan-dev/kplan/steps/internal/transport"
	"github.com/kplan-dev/kplan/webhook"
)

// lastLook bounds the check of the live state after the time is up.
const lastLook = 3 * time.Second

// Wait says what to wait for.
type Wait struct {
	Targets []Target
	// For completes "timed out waiting for"; default: the targets "to be ready".
	For string
	// Judge looks at an object, which it must not change; nil means that it is
	// absent. With a selector it is called for each object that is there, and
	// with nil when there is none. It is called from Until's goroutine only.
	Judge func(Target, *unstructured.Unstructured) Reading
	// Changed is called from Until's goroutine whenever a reading changes, and again
	// for one that is waited for when another became ready after it; it may be nil.
	Changed func(Change)
	// Notice takes remarks on how objects are watched, from many goroutines; it may be nil.
	Notice func(string)
	// Deletion says that the objects are to go: only those of the first look
	// count, whatever comes later under the same name or labels, and a kind that
	// the API server does not serve has no objects.
	Deletion bool

	// Patient says that targets whose pods or claims cannot get on are waited for all
	// the same. Where the session fails fast, others have failed after a grace for each
	// class of trouble, see package stall.
	Patient bool

	// Limits are those of stalls; nil is the default.
	Limits *stall.Limits
	// Patience is how long the wait goes on before it is looked at why; zero is the
	// default of five seconds.
	Patience time.Duration
	// bound is that of one watch; zero is the default of package listwatch.
	bound time.Duration
}

// Change is the reading of a target, and how many targets there are.
type Change struct {
	Target       Target
	Reading      Reading
	Ready, Total int
}

// FailedError says that waiting on for Target is in vain.
type FailedError struct {
	Target Target
	Reason string
	// Stalled says that the target itself has not failed: its pods or claims cannot get on.
	Stalled bool
}

func (e *FailedError) Error() string { return e.Target.String() + ": " + e.Reason }

// Hint implements the interface that runner.HintOf looks for.
func (e *FailedError) Hint() string {
	look := "look with: " + e.Target.describe()
	if e.Stalled {
		look += "; with fail_fast: false the step waits for its whole timeout"
	}
	if words := webhook.Explain(e.Reason); words != "" {
		return words + "; " + look
	}
	return look
}

// Until waits until every target is ready by its judge, at the same time; one
// that was ready and is gone (a finished Job that was cleaned up) stays ready.
// It returns a *FailedError as soon as one failed. When ctx runs out of time
// the live state is looked at once more, past all watches; what is still not
// ready then is in the error, a *runner.TimeoutError. When ctx ends for another
// reason that is the error.
//
// Objects are listed and watched, one list and watch for all targets of a kind
// and namespace. A watch that ends is begun anew with a list, so that nothing
// is missed. Where watching is forbidden objects are polled, and Notice is told.
func Until(ctx context.Context, s *cluster.Session, w Wait) error {
	if len(w.Targets) == 0 {
		return nil
	}
	began := time.Now()
	b := newTracker(s, w)
	following, stop := context.WithCancelCause(ctx)
	updates := make(chan update) // followers send until following ends; never closed
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop(nil)
	follow := func(f listing, names []string) {
		follow := follower{session: s, listing: f, names: names, out: updates, notice: w.Notice, deletion: w.Deletion, bound: w.bound}
		followers.Go(func() { follow.run(following) })
	}
	for f, names := range b.listings() {
		follow(f, names)
	}
	suspect := b.suspecting()
	defer suspect.Stop()
	for {
		select {
		case <-ctx.Done():
			return lastCheck(ctx, s, b, began)
		case u := <-updates:
			if u.fatal != nil {
				return u.fatal
			}
			b.take(u)
		case <-b.due():
			b.judgeAll()
		case <-suspect.C:
			for _, f := range b.suspects() {
				follow(f, nil)
			}
		case <-b.reminder():
			b.remind()
		}
		if done, err := b.verdict(); done {
			return err
		}
	}
}

// lastCheck is what Until returns once ctx has ended.
func lastCheck(ctx context.Context, s *cluster.Session, b *tracker, began time.Time) error {
	cause := context.Cause(ctx)
	timeout := (*runner.TimeoutError)(nil)
	if !errors.As(cause, &timeout) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	look, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lastLook, errors.New("no time left"))
	defer cancel()
	look = transport.PastEnd(look)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen []update
		slot = make(chan struct{}, 16) // bounds the requests in flight
	)
	for f, names := range b.pendingListings() {
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			follow := follower{session: s, listing: f, names: names, deletion: b.wait.Deletion}
			if u, err := follow.look(look); err == nil {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, u)
			}
		})
	}
	wg.Wait()
	for _, u := range seen {
		b.take(u)
	}
	if done, err := b.verdict(); done {
		return err
	}
	bound := &runner.TimeoutError{After: time.Since(began).Round(100 * time.Millisecond), Cause: cause}
	if timeout != nil {
		bound.After = timeout.After
	}
	bound.For, bound.Last = b.waitsFor(), b.pendingText()
	return runner.WithHint(bound, "look with: "+pending(b.entries)[0].target.describe())
}

// Pause waits for d, or until ctx ends, whose cause it returns then.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
