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

// flow is what an attempt has in flight, and what became of it.
type flow struct {
	send     func(context.Context, *item) (outcome, error)
	reporter runner.Reporter
	total    int           // the objects of the step
	slots    chan struct{} // one entry for each request in flight
	sends    sync.WaitGroup

	mu      sync.Mutex
	created map[string]bool // see Action
	counts  [3]int          // by outcome
	errs    faults
}

// sendAll starts the requests of one phase and waits until they were answered;
// unless all of them have to be, those that are held, or take longer than the
// head start, are left behind.
func (f *flow) sendAll(ctx context.Context, items []*item, all bool) {
	var phase sync.WaitGroup
	for i, it := range items {
		// Those that go first go whatever becomes of one of them, so that what is
		// wrong with several is told together.
		if !f.acquire(ctx, i < inFlight) {
			if !f.failed() {
				f.fail(context.Cause(ctx))
			}
			break
		}
		phase.Add(1)
		release, settle := sync.OnceFunc(func() { <-f.slots }), sync.OnceFunc(phase.Done)
		slow := time.AfterFunc(headStart, release)
		f.sends.Go(func() {
			defer settle()
			defer release()
			defer slow.Stop()
			what, err := f.send(hold.WithNotify(ctx, func(n hold.Notice) {
				if n.Event != hold.Held {
					return
				}
				release()
				if !all {
					settle()
				}
			}), it)
			f.sent(it, what, err)
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
func (f *flow) acquire(ctx context.Context, early bool) bool {
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if !early && f.failed() || ctx.Err() != nil {
		<-f.slots
		return false
	}
	return true
}

// errStopped ends requests because another one of the step failed.
var errStopped = errors.New("stopped: another object failed")

// join waits for every request. Once one failed, the rest have little time:
// what is held for a webhook would keep the failure from being told.
func (f *flow) join(stop context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() { // ends with the requests, which are waited for below
		f.sends.Wait()
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
		case !f.failed():
		case deadline.IsZero():
			deadline = time.Now().Add(drain)
		case time.Now().After(deadline):
			stop(errStopped)
		}
	}
}

// sent notes how a request ended.
func (f *flow) sent(it *item, what outcome, err error) {
	if errors.Is(err, errStopped) {
		return
	}
	if err != nil {
		f.fail(fmt.Errorf("%s: %w", it.ID(), err))
		return
	}
	f.mu.Lock()
	it.outcome, it.done = what, true
	f.counts[what]++
	done := f.counts[created] + f.counts[configured] + f.counts[unchanged]
	report := runner.Report{
		Type: runner.TypeProgress, Object: it.ID(), Message: it.ID() + " " + what.String(), Done: done, Total: f.total,
	}
	if what == created { // told at once: another attempt, or run, would find it there
		f.created[it.ID()] = true
		report.Objects = []runner.Applied{it.record(true)}
	}
	f.mu.Unlock()
	f.reporter.Report(report)
}

func (f *flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *flow) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errs) > 0
}
