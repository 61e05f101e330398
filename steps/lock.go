package steps

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Lock says how a run takes the plan's lock in the clusters that it writes to.
type Lock struct {
	// Wait is how long to wait for another run of the plan to end.
	Wait time.Duration
	// Waiting hears for whom the run waits before its first step starts.
	Waiting func(string)
	// Lost is called when a lock is lost, with a *ledger.LostError. Steps that write
	// have been told to end by then; nothing else of the run may start.
	Lost func(error)
}

// locks are the plan's locks in the clusters that the run writes to. A nil one keeps
// none.
type locks struct {
	Lock
	plan   *plan.Plan
	holder ledger.Holder

	// turn has room for one: clusters are locked one after another, so that two
	// names of one are found to be.
	turn chan struct{}
	// lost ends when a lock is lost, with the reason.
	lost context.Context
	lose context.CancelCauseFunc
	// watches are the goroutines that wait for a lock to be lost; close ends them.
	watches sync.WaitGroup
	closed  chan struct{}

	mu sync.Mutex
	of map[string]*heldLock // by the cluster's name in the plan
}

// heldLock is the lock of one cluster.
type heldLock struct {
	cluster *cluster.Cluster
	// lock is nil when there is no right to keep one, or another name of the cluster
	// has it.
	lock   *ledger.Lock
	denied bool
	// notes are what people should know, until somebody tells them.
	notes []string
}

func newLocks(c Config) *locks {
	if c.Lock == nil {
		return nil
	}
	k := &locks{
		Lock: *c.Lock, plan: c.Plan, holder: ledger.Self(c.Run), turn: make(chan struct{}, 1), closed: make(chan struct{}), of: map[string]*heldLock{},
	}
	k.lost, k.lose = context.WithCancelCause(context.Background())
	return k
}

// writes reports whether a step changes its cluster: no lock is needed for others.
func writes(s plan.Step) bool {
	switch s.Kind() {
	case plan.KindHelm, plan.KindApply, plan.KindDelete:
		return true
	case plan.KindWait, plan.KindWebhook, plan.KindInclude:
	}
	return false
}

// lockFirst takes the locks that are needed at once: that of the cluster of the
// command line, and those of other clusters which a step writes to that waits for
// none. What cannot be reached is for the step to say.
func (s *Steps) lockFirst(ctx context.Context) error {
	if s.locks == nil {
		return nil
	}
	var first []string
	for _, step := range s.plan.Steps {
		name := s.plan.StepCluster(step)
		if step.Skip == "" && writes(step) && (name == "" || len(step.Needs) == 0 && !step.Last && s.conns[name].Local()) {
			first = append(first, name)
		}
	}
	slices.Sort(first)
	first = slices.Compact(first)
	errs := make([]error, len(first))
	var group sync.WaitGroup
	for i, name := range first {
		group.Go(func() {
			if c, err := s.conns[name].Connect(ctx); err == nil {
				errs[i] = s.locks.take(ctx, name, c, s.locks.Waiting)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// while does something of a step while the run has the lock of the step's cluster.
// The context of what it does ends when a lock is lost, whatever cluster's.
func (k *locks) while(ctx context.Context, name string, c *cluster.Cluster, r runner.Reporter, f func(context.Context) error) error {
	if k == nil {
		return f(ctx)
	}
	log := func(text string) { r.Report(runner.Report{Type: runner.TypeLog, Message: text}) }
	if err := k.take(ctx, name, c, log); err != nil {
		return runner.Permanent(err)
	}
	for _, note := range k.news(name) {
		log(note)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.lost, func() { cancel(context.Cause(k.lost)) })()
	return f(ctx)
}

// take takes the lock of a cluster, unless the run has it. A user who may not keep
// one goes without.
func (k *locks) take(ctx context.Context, name string, c *cluster.Cluster, told func(string)) error {
	if held := k.get(name); held != nil && held.cluster == c && context.Cause(k.lost) == nil {
		return nil // also while another cluster's lock is waited for
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if context.Cause(k.lost) != nil {
		return context.Cause(k.lost)
	}
	before := k.get(name)
	if before != nil && before.cluster == c {
		return nil
	}
	if before != nil && before.lock != nil { // another cluster has this name now
		_ = before.lock.Release(ctx)
	}
	place, err := placeOn(c, k.plan) // nothing of it is held for webhooks
	if err != nil {
		return err
	}
	h := &heldLock{cluster: c}
	if !k.has(ctx, place) {
		h.lock, err = ledger.Acquire(ctx, place, ledger.Request{Holder: k.holder, Wait: k.Wait, Told: told})
		if denied := (*ledger.DeniedError)(nil); errors.As(err, &denied) {
			h.denied, err = true, nil
			h.notes = append(h.notes, "warning: "+denied.Error()+"; nothing keeps another run from working against this one")
		}
		if err != nil {
			return err
		}
	}
	if h.lock != nil {
		if from := h.lock.TakenFrom(); from != "" {
			h.notes = append(h.notes, "took over the lock of the plan from "+from)
		}
		k.watches.Go(func() { k.watch(h.lock) })
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[name] = h
	return nil
}

// has reports whether the run has the lock of a cluster already, under another name
// of the plan.
func (k *locks) has(ctx context.Context, place ledger.Place) bool {
	k.mu.Lock()
	none := len(k.of) == 0
	k.mu.Unlock()
	if none {
		return false
	}
	by, err := place.Locked(ctx)
	return err == nil && by != nil && by.Run == k.holder.Run
}

// watch waits for a lock to be lost.
func (k *locks) watch(l *ledger.Lock) {
	select {
	case <-l.Lost():
		k.lose(l.Err())
		k.Lost(l.Err())
	case <-k.closed:
	}
}

func (k *locks) get(name string) *heldLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[name]
}

// news is what people should know of the lock of a cluster, once.
func (k *locks) news(name string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := k.of[name].notes
	k.of[name].notes = nil
	return news
}

// holds reports whether no other run of the plan that keeps a lock works on a
// cluster now.
func (k *locks) holds(name string) bool {
	if k == nil || k.lost.Err() != nil {
		return false
	}
	h := k.get(name)
	return h != nil && !h.denied
}

// close gives the locks back. No action may run any more.
func (k *locks) close() {
	if k == nil {
		return
	}
	close(k.closed)
	k.watches.Wait()
	k.lose(nil)
	var group sync.WaitGroup
	for _, h := range k.of {
		if h.lock != nil {
			group.Go(func() { _ = h.lock.Release(context.Background()) })
		}
	}
	group.Wait()
}
