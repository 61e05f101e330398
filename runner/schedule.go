package runner

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

// group bounds how many steps of one for_each run at once.
type group struct {
	limit, running int
	parked         queue // those that may start but for the limit
}

// run runs all steps but the plan's finally ones, then these, whatever became of
// the others. What ends ctx does not end them.
func (l *loop) run(ctx context.Context) {
	if l.runPhase(ctx, ctx, false) {
		l.runPhase(ctx, context.WithoutCancel(ctx), true)
	}
}

// turn is the loop: it starts what is ready, whose work ends with the context
// work, then waits for the next message. stop is the run's own context. It
// reports whether every step of the turn has ended; if not, the run was aborted.
func (l *loop) runPhase(stop, work context.Context, last bool) bool {
	l.open(last)
	done := stop.Done()
	for {
		l.checkStopped(stop)
		l.launch(work)
		if l.running == 0 && l.waiting == 0 && !l.lingers() {
			l.endStuck()
			return true
		}
		select {
		case m := <-l.inbox:
			l.checkStopped(stop) // an action that ended because the context did must find the run stopped
			l.handle(m)
		case o, ok := <-l.orders:
			if !ok {
				l.orders = nil
				continue
			}
			l.checkStopped(stop)
			l.handleOrder(o)
		case <-done:
			done = nil // seen: the next round notices it
		case <-l.abort:
			l.abandon()
			return false
		}
	}
}

// open begins the turn of the finally steps, or that of all others: it finds
// those which wait for nothing.
func (l *loop) open(last bool) {
	l.last = last
	var roots []*task
	for _, t := range l.tasks {
		if t.step.Last != last {
			continue
		}
		t.missing = 0
		for _, e := range t.needs {
			if e.task == nil || e.task.step.Last == last || !last {
				t.missing++
			}
		}
		if t.missing == 0 {
			roots = append(roots, t)
		}
	}
	for _, t := range roots {
		if !l.decide(t) {
			l.propagate(t)
		}
	}
}

// launch begins tasks that are ready while there are slots, here and in their groups.
func (l *loop) launch(ctx context.Context) {
	for l.running < l.slots && l.ready.Len() > 0 {
		t, _ := heap.Pop(&l.ready).(*task)
		if g := t.group; g != nil && g.running >= g.limit {
			heap.Push(&g.parked, t)
			continue
		}
		l.startAttempt(ctx, t)
	}
}

// occupy gives t a slot.
func (l *loop) takeSlot(t *task) {
	t.active = true
	l.running++
	if t.group != nil {
		t.group.running++
	}
}

// vacate takes back t's slot.
func (l *loop) freeSlot(t *task) {
	t.active = false
	l.running--
	if t.group != nil {
		t.group.running--
	}
	l.unpark(t.group)
}

// unpark makes the first parked task of a group that has a slot ready again.
func (l *loop) unpark(g *group) {
	if g != nil && g.running < g.limit && g.parked.Len() > 0 {
		heap.Push(&l.ready, heap.Pop(&g.parked))
	}
}

// settle tells those that need t that it has ended, decides on each of them that
// waits for nothing more, and so on with those that ended thereby.
func (l *loop) propagate(t *task) {
	for todo := []*task{t}; len(todo) > 0; todo = todo[1:] {
		for _, e := range todo[0].dependents {
			d := e.task
			if d.step.Last != l.last {
				continue // its turn has yet to come, see open
			}
			if d.missing--; d.missing == 0 && !l.decide(d) {
				todo = append(todo, d)
			}
		}
	}
}

// decide says what becomes of t, now that all that it needs has ended. It
// reports whether t is to run; if not, it has ended.
func (l *loop) decide(t *task) bool {
	if l.state(t).Terminal() {
		return false
	}
	state, why := l.fate(t)
	if state == StatePending {
		heap.Push(&l.ready, t)
		return true
	}
	l.enter(t, Event{State: state, Message: why})
	return false
}

// verdict looks at how the steps that t needs have ended, and at what the plan
// says of t itself. A step that is blocked shall not look as if nobody wanted it:
// that comes first.
func (l *loop) fate(t *task) (state State, why string) {
	var wanted, failed int // of the needs on failure
	var unmet string
	for _, e := range t.needs {
		s := l.state(e.task)
		switch e.on {
		case plan.NeedAlways:
		case plan.NeedFailure:
			wanted++
			if s == StateFailed || s == StateBlocked {
				failed++
			}
			unmet = fmt.Sprintf("step %q did not fail", e.task.step.Name)
		case plan.NeedSuccess, "":
			if !s.Good() {
				return StateBlocked, fmt.Sprintf("step %q was %s", e.task.step.Name, s)
			}
		}
	}
	if wanted > 1 {
		unmet = fmt.Sprintf("none of %d steps failed", wanted)
	}
	switch {
	case t.step.Skip != "":
		return StateSkipped, t.step.Skip
	case wanted > 0 && failed == 0:
		return StateSkipped, unmet
	case t.step.When == false:
		return StateSkipped, whenFalse
	}
	return StatePending, ""
}

// whenFalse is why a step is skipped that does not want to run.
const whenFalse = "its when is false"

// block ends all that need t to succeed, directly or not: whatever else they
// wait for cannot help them. Those that need one of them to have ended in
// another way wait nevertheless until nothing before it is at work, see settle.
func (l *loop) block(t *task) {
	var blocked []*task
	for todo := []*task{t}; len(todo) > 0; todo = todo[1:] {
		for _, e := range todo[0].dependents {
			d := e.task
			if (e.on == "" || e.on == plan.NeedSuccess) && !d.willBlock && l.state(d) == StatePending {
				d.willBlock = true
				blocked, todo = append(blocked, d), append(todo, d)
			}
		}
	}
	slices.SortFunc(blocked, func(a, b *task) int { return cmp.Compare(a.index, b.index) })
	for _, d := range blocked {
		l.enter(d, Event{State: StateBlocked, Message: fmt.Sprintf("step %q failed", t.step.Name)})
	}
}

// notice sees that ctx has ended. Before the turn of the finally steps that
// stops the run: what did not start never will.
func (l *loop) checkStopped(ctx context.Context) {
	if l.cause != nil || context.Cause(ctx) == nil {
		return
	}
	l.cause = context.Cause(ctx)
	e := Event{Type: TypeCancel, Error: l.cause.Error()}
	if l.hasFinally() {
		e.Message = "the finally steps run nevertheless"
	}
	l.emit(e)
	if l.last {
		return
	}
	l.stopped = l.cause
	l.ready, l.waiting = nil, 0
	for _, t := range l.tasks {
		switch s := l.state(t); {
		case t.step.Last || t.active || s.Terminal():
		case s == StatePending:
			l.enter(t, Event{State: StateCancelled, Message: "not started"})
		default:
			l.enter(t, Event{State: StateCancelled, Message: "stopped before its next attempt", Error: t.lastErr.Error()})
			t.cancel()
		}
		if t.group != nil {
			t.group.parked = nil
		}
	}
}

func (l *loop) hasFinally() bool {
	return slices.ContainsFunc(l.tasks, func(t *task) bool { return t.step.Last })
}

// abandon gives up every action that is still at work.
func (l *loop) abandon() {
	l.stopped = errors.Join(l.cause, ErrAborted)
	for _, t := range l.tasks {
		if l.state(t).Terminal() {
			continue
		}
		msg := "not started"
		if t.active {
			msg = "aborted at work"
		}
		l.enter(t, Event{State: StateCancelled, Message: msg})
		if t.cancel != nil {
			t.cancel()
		}
	}
}

// unstick ends steps of this turn that can never start. A validated plan has none.
func (l *loop) endStuck() {
	for _, t := range l.tasks {
		if t.step.Last == l.last && !l.state(t).Terminal() {
			l.stopped = ErrStuck
			l.enter(t, Event{State: StateBlocked, Message: "its needs form a cycle or do not exist"})
		}
	}
}

// queue is a heap of tasks by place in the plan.
type queue []*task

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].index < q[j].index }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(*task)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	*q = old[:len(old)-1]
	return t
}
