package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// sendAll starts the requests of one phase and waits until they were answered;
// unless all of them have to be, those that are held, or take longer than the
// head start, are left behind.
func (r *run) sendAll(ctx context.Context, items []*item, sends *sync.WaitGroup, all bool) {
	var phase sync.WaitGroup
	for i, it := range items {
		// Those that go first go whatever becomes of one of them, so that what is
		// wrong with several is told together.
		if !r.acquire(ctx, i < inFlight) {
			if !r.failed() {
				r.fail(context.Cause(ctx))
			}
			break
		}
		phase.Add(1)
		release, settle := sync.OnceFunc(func() { <-r.slots }), sync.OnceFunc(phase.Done)
		slow := time.AfterFunc(headStart, release)
		sends.Go(func() {
			defer settle()
			defer release()
			defer slow.Stop()
			what, err := r.send(hold.WithNotify(ctx, func(n hold.Notice) {
				if n.Event != hold.Held {
					return
				}
				release()
				if !all {
					settle()
				}
			}), it)
			r.sent(it, what, err)
		})
	}
	answered := make(chan struct{})
	go func() { // ends with the phase's requests, for which join waits
		phase.Wait()
		close(answered)
	}()
	if all {
		<-answered
		return
	}
	select {
	case <-answered:
	case <-time.After(headStart):
	}
}

// acquire waits for a place in flight; false when nothing is to be started any more.
// An object that failed matters to those that do not go first.
func (r *run) acquire(ctx context.Context, early bool) bool {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if !early && r.failed() || ctx.Err() != nil {
		<-r.slots
		return false
	}
	return true
}

// errStopped ends requests because another one of the step failed.
var errStopped = errors.New("stopped: another object failed")

// join waits for every request. Once one failed, the rest have little time:
// what is held for a webhook would keep the failure from being told.
func (r *run) join(sends *sync.WaitGroup, stop context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() { // ends with the requests, which are waited for below
		sends.Wait()
		close(done)
	}()
	look := time.NewTicker(drain / 10)
	defer look.Stop()
	var deadline time.Time
	for {
		select {
		case <-done:
			return
		case <-look.C:
		}
		switch {
		case !r.failed():
		case deadline.IsZero():
			deadline = time.Now().Add(drain)
		case time.Now().After(deadline):
			stop(errStopped)
		}
	}
}

// sent notes how a request ended.
func (r *run) sent(it *item, what outcome, err error) {
	if errors.Is(err, errStopped) {
		return
	}
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", it.ID(), err))
		return
	}
	r.mu.Lock()
	it.outcome, it.done = what, true
	r.counts[what]++
	done := r.counts[created] + r.counts[configured] + r.counts[unchanged]
	report := runner.Report{
		Type: runner.TypeProgress, Object: it.ID(), Message: it.ID() + " " + what.String(), Done: done, Total: len(r.manifests),
	}
	if what == created { // told at once: another attempt, or run, would find it there
		r.created[it.ID()] = true
		report.Objects = []runner.Applied{it.record(true)}
	}
	r.mu.Unlock()
	r.reporter.Report(report)
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs) > 0
}
