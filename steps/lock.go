package steps

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
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
	// Seat is the ledger.Holder's: a run on the same seat takes over from this one at once.
	Seat string
	// Later leaves it to a call of TakeLocks to take the first locks.
	Later bool
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
	of map[string]*named // by the cluster's name in the plan
}

// named is a cluster of the plan as it is connected to now.
type named struct {
	cluster *cluster.Cluster
	held    *heldLock
	// notes are what people should know, until somebody tells them.
	notes []string
}

// heldLock is the lock of one cluster, which may have several names.
type heldLock struct {
	lock *ledger.Lock // nil when there is no right to keep one
	// users are the names of the cluster, and the steps that work under the lock.
	// locks.mu guards it.
	users int
}

func newLocks(c Config) *locks {
	if c.Lock == nil {
		return nil
	}
	k := &locks{
		Lock: *c.Lock, plan: c.Plan, holder: ledger.Self(c.Run), turn: make(chan struct{}, 1), closed: make(chan struct{}), of: map[string]*named{},
	}
	k.holder.Seat = c.Lock.Seat
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

// TakeLocks takes the locks that are needed before the first step: that of the cluster of
// the command line, and those of other clusters which a step writes to that waits for
// none. What cannot be reached is for the step to say. New calls it, unless Lock.Later is
// set.
func (s *Steps) TakeLocks(ctx context.Context) error {
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
	for _, c := range inOrder(ctx, connectAll(ctx, s.conns, slices.Compact(first))) {
		h, err := s.locks.take(ctx, c.name, c.cluster, s.locks.Waiting)
		if err != nil {
			return err
		}
		s.locks.leave(h)
	}
	return nil
}

// reached is a cluster that was connected to, and its name in the plan.
type reached struct {
	name     string
	cluster  *cluster.Cluster
	identity string
}

// connectAll connects to clusters side by side. Those that cannot be reached are left
// out.
func connectAll(ctx context.Context, conns map[string]*cluster.Conn, names []string) []reached {
	all := make([]reached, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			if c, err := conns[name].Connect(ctx); err == nil {
				all[i] = reached{name: name, cluster: c}
			}
		})
	}
	group.Wait()
	return slices.DeleteFunc(all, func(r reached) bool { return r.cluster == nil })
}

// inOrder sorts clusters so that all runs lock them in one order, whatever a plan or a
// kubeconfig calls them: else two that wait for locks could wait for each other.
func inOrder(ctx context.Context, all []reached) []reached {
	if len(all) < 2 {
		return all
	}
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { all[i].identity = all[i].cluster.Identity(ctx) })
	}
	group.Wait()
	slices.SortStableFunc(all, func(a, b reached) int { return strings.Compare(a.identity, b.identity) })
	return all
}

// while does something of a step while the run has the lock of the step's cluster.
// The context of what it does ends when a lock is lost, whatever cluster's.
func (k *locks) while(ctx context.Context, name string, c *cluster.Cluster, r runner.Reporter, f func(context.Context) error) error {
	if k == nil {
		return f(ctx)
	}
	log := func(text string) { r.Report(runner.Report{Type: runner.TypeLog, Message: text}) }
	h, err := k.take(ctx, name, c, log)
	if err != nil {
		return runner.Permanent(err)
	}
	defer k.leave(h)
	for _, note := range k.news(name) {
		log(note)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.lost, func() { cancel(context.Cause(k.lost)) })()
	return f(ctx)
}

// take takes the lock of a cluster, unless the run has it, for somebody who leaves it
// later. A user who may not keep one goes without.
func (k *locks) take(ctx context.Context, name string, c *cluster.Cluster, told func(string)) (*heldLock, error) {
	if h := k.use(name, c); h != nil && context.Cause(k.lost) == nil {
		return h, nil // also while another cluster's lock is waited for
	} else if h != nil {
		k.leave(h)
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if context.Cause(k.lost) != nil {
		return nil, context.Cause(k.lost)
	}
	if h := k.use(name, c); h != nil {
		return h, nil
	}
	place, err := placeOn(c, k.plan) // nothing of it is held for webhooks
	if err != nil {
		return nil, err
	}
	h, notes, err := k.lockAt(ctx, place, told)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	before := k.of[name]
	k.of[name] = &named{c, h, notes}
	h.users += 2 // the name and the caller
	k.mu.Unlock()
	if before != nil { // the name was another cluster's, or another way to this one
		k.leave(before.held)
	}
	return h, nil
}

// use is the lock of a cluster that the run has under a name, for one more who leaves it
// later; nil when there is none yet.
func (k *locks) use(name string, c *cluster.Cluster) *heldLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.of[name]
	if n == nil || n.cluster != c {
		return nil
	}
	n.held.users++
	return n.held
}

// leave gives a lock back when nobody uses it any more.
func (k *locks) leave(h *heldLock) {
	k.mu.Lock()
	h.users--
	unused := h.users == 0 && h.lock != nil
	k.mu.Unlock()
	if unused { // its cluster may be gone, which takes a while: close waits for that
		k.watches.Go(func() { _ = h.lock.Release(context.Background()) })
	}
}

// lockAt goes on with a lock that the run has in a cluster under another name, or over
// another connection, or else takes it. notes are what people should know of that.
func (k *locks) lockAt(ctx context.Context, place ledger.Place, told func(string)) (h *heldLock, notes []string, err error) {
	for _, h := range k.held() {
		if same, err := h.lock.Continue(ctx, place); same || err != nil {
			return k.orDenied(h, err)
		}
	}
	lock, err := ledger.Acquire(ctx, place, ledger.Request{Holder: k.holder, Wait: k.Wait, Told: told})
	if err != nil {
		return k.orDenied(nil, err)
	}
	if from := lock.TakenFrom(); from != "" {
		notes = append(notes, "took over the lock of the plan from "+from)
	}
	k.watches.Go(func() { k.watch(lock) })
	return &heldLock{lock: lock}, notes, nil
}

// orDenied is a lock, or none at all if the user may not keep one, and a warning.
func (k *locks) orDenied(h *heldLock, err error) (*heldLock, []string, error) {
	if denied, is := errors.AsType[*ledger.DeniedError](err); is {
		return &heldLock{}, []string{"warning: " + denied.Error() + "; nothing keeps another run from working against this one"}, nil
	}
	return h, nil, err
}

// held are the locks that the run has, each once.
func (k *locks) held() []*heldLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*heldLock
	for _, name := range slices.Sorted(maps.Keys(k.of)) {
		if h := k.of[name].held; h.lock != nil && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
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
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.of[name]
	return n != nil && n.held.lock != nil
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
	for _, h := range k.held() {
		group.Go(func() { _ = h.lock.Release(context.Background()) })
	}
	group.Wait()
}
