package runner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

// schedule says which task may start next. It follows how tasks end, and ends those
// that thereby never will start; it starts none.
type schedule struct {
	record *recorder
	tasks  []*task
	byName map[string]*task

	ready   queue // tasks that may start
	slots   int   // how many may run at once
	running int   // tasks that have a slot
	waiting int   // tasks in retrying whose delay is not over
	finally bool  // the plan's finally steps have their turn
}

func newSchedule(p *plan.Plan, record *recorder, slots int) (*schedule, error) {
	tasks, byName, err := newTasks(p)
	if err != nil {
		return nil, err
	}
	return &schedule{record: record, tasks: tasks, byName: byName, slots: slots}, nil
}

// open begins the phase of the finally steps, or that of all others, with those
// that wait for nothing.
func (s *schedule) open(finally bool) {
	s.finally = finally
	var roots []*task
	for _, t := range s.tasks {
		if t.step.Last != finally {
			continue
		}
		if s.countMissing(t); t.missing == 0 {
			roots = append(roots, t)
		}
	}
	for _, t := range roots {
		if !s.decide(t) {
			s.propagate(t)
		}
	}
}

// countMissing counts what t needs and has not ended. A step that does not exist never ends.
func (s *schedule) countMissing(t *task) {
	t.missing = 0
	for _, e := range t.needs {
		if e.task == nil || !s.record.state(e.task).Terminal() {
			t.missing++
		}
	}
}

// next takes the first task out of the queue that may start; nil when there is none,
// or no slot for it.
func (s *schedule) next() *task {
	for s.running < s.slots && len(s.ready) > 0 {
		t := s.ready.pop()
		switch { // whoever is parked for one bound leaves the room of the other to the next
		case t.turn.taken(t):
			s.awaitTurn(t)
			s.unpark(t.group)
		case t.group.full():
			t.group.parked.push(t)
			s.passTurn(t.turn)
		default:
			return t
		}
	}
	return nil
}

// idle reports whether nothing is at work, and nothing will be by itself.
func (s *schedule) idle() bool { return s.running == 0 && s.waiting == 0 }

// takeSlot gives t a slot.
func (s *schedule) takeSlot(t *task) {
	t.active = true
	s.running++
	if t.group != nil {
		t.group.running++
	}
	if t.turn != nil {
		t.turn.holder = t
	}
}

// freeSlot takes back t's slot.
func (s *schedule) freeSlot(t *task) {
	t.active = false
	s.running--
	if t.group != nil {
		t.group.running--
	}
	s.unpark(t.group)
}

// unpark makes the first parked task of a group ready again, if the group has room.
func (s *schedule) unpark(g *group) {
	if g != nil && !g.full() && len(g.parked) > 0 {
		s.ready.push(g.parked.pop())
	}
}

// endDelay makes t, which waits for its next attempt, ready for it.
func (s *schedule) endDelay(t *task) {
	s.waiting--
	t.delayOver = true
	s.ready.push(t)
}

// remove takes t, which is not at work, out of whatever it waits in.
func (s *schedule) remove(t *task) {
	if s.record.state(t) == StateRetrying && !t.delayOver {
		s.waiting--
	}
	s.ready.remove(t)
	if t.group != nil {
		t.group.parked.remove(t)
	}
	if t.turn != nil {
		t.turn.parked.remove(t)
	}
}

// clear forgets all that is ready or waits: nothing starts any more.
func (s *schedule) clear() {
	s.ready, s.waiting = nil, 0
	for _, t := range s.tasks {
		if t.group != nil {
			t.group.parked = nil
		}
		if t.turn != nil {
			t.turn.parked = nil
		}
	}
}

// propagate tells those that need t that it has ended, decides on each of them that
// waits for nothing more, and so on with those that ended thereby.
func (s *schedule) propagate(t *task) {
	for todo := []*task{t}; len(todo) > 0; todo = todo[1:] {
		for _, e := range todo[0].dependents {
			d := e.task
			if d.step.Last != s.finally {
				continue // its phase has yet to come, see open
			}
			if d.missing--; d.missing == 0 && !s.decide(d) {
				todo = append(todo, d)
			}
		}
	}
}

// decide settles what becomes of t, now that all that it needs has ended. It
// reports whether t is to run; if not, it has ended.
func (s *schedule) decide(t *task) bool {
	if s.record.state(t).Terminal() {
		return false
	}
	state, why := s.fate(t)
	if state == StatePending {
		s.ready.push(t)
		return true
	}
	s.record.enter(t, Event{State: state, Message: why})
	return false
}

// fate looks at how the steps that t needs have ended, and at what the plan says of
// t itself: it returns pending for a task that is to run. A step that is blocked
// shall not look as if nobody wanted it: that comes first.
func (s *schedule) fate(t *task) (state State, why string) {
	var wanted, failed int // of the needs on failure
	var unmet string
	for _, e := range t.needs {
		state := s.record.state(e.task)
		switch e.on {
		case plan.NeedAlways:
		case plan.NeedFailure:
			wanted++
			if state == StateFailed || state == StateBlocked {
				failed++
			}
			unmet = fmt.Sprintf("step %q did not fail", e.task.step.Name)
		case plan.NeedSuccess, "":
			if !state.Good() {
				return StateBlocked, fmt.Sprintf("step %q was %s", e.task.step.Name, state)
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
// another way wait nevertheless until nothing before it is at work, see propagate.
func (s *schedule) block(t *task) {
	var blocked []*task
	for todo := []*task{t}; len(todo) > 0; todo = todo[1:] {
		for _, e := range todo[0].dependents {
			d := e.task
			if e.success() && !d.willBlock && s.record.state(d) == StatePending {
				d.willBlock = true
				blocked, todo = append(blocked, d), append(todo, d)
			}
		}
	}
	slices.SortFunc(blocked, byIndex)
	for _, d := range blocked {
		s.record.enter(d, Event{State: StateBlocked, Message: fmt.Sprintf("step %q failed", t.step.Name)})
	}
}

// restart makes t, which failed, ready again, and the steps that are blocked for
// nothing else wait for it.
func (s *schedule) restart(t *task, why string) {
	revived := map[*task]bool{t: true}
	blocked := func(e edge) bool { // once the revived ones are not to blame any more
		if e.task == nil {
			return true
		}
		state := s.record.state(e.task)
		return e.success() && !revived[e.task] && state.Terminal() && !state.Good()
	}
	for again := true; again; {
		again = false
		for _, d := range s.tasks {
			if !revived[d] && s.record.state(d) == StateBlocked && !slices.ContainsFunc(d.needs, blocked) {
				revived[d], again = true, true
			}
		}
	}
	for _, d := range s.tasks {
		if revived[d] {
			d.willBlock = false
			s.record.enter(d, Event{State: StatePending, Message: why})
		}
	}
	for _, d := range s.tasks { // whatever waits has to wait for these too
		if d.step.Last == s.finally && s.record.state(d) == StatePending && d.missing > 0 || revived[d] {
			s.countMissing(d)
		}
	}
	s.ready.push(t)
}

// endStuck ends the steps of this phase that can never start, and reports whether
// there are any. A validated plan has none.
func (s *schedule) endStuck() (stuck bool) {
	for _, t := range s.tasks {
		if t.step.Last == s.finally && !s.record.state(t).Terminal() {
			stuck = true
			s.record.enter(t, Event{State: StateBlocked, Message: "its needs form a cycle or do not exist"})
		}
	}
	return stuck
}

// hasFinally reports whether the plan has finally steps.
func (s *schedule) hasFinally() bool {
	return slices.ContainsFunc(s.tasks, func(t *task) bool { return t.step.Last })
}

// inputs returns what the run itself knows of the inputs of a deferred step: the
// states and outputs of steps.
func (s *schedule) inputs(t *task) plan.Inputs {
	known := plan.Inputs{}
	for _, in := range t.inputs {
		of := s.byName[in.Step]
		if of == nil { // from a cluster
			continue
		}
		state := s.record.state(of)
		if v, ok := of.outputs[in.Output]; ok && state.Good() {
			known[in] = v
		}
		known[plan.Input{Step: in.Step}] = string(state)
	}
	return known
}

// queue holds tasks by place in the plan.
type queue []*task

func byIndex(a, b *task) int { return cmp.Compare(a.index, b.index) }

func (q *queue) push(t *task) {
	i, _ := slices.BinarySearchFunc(*q, t, byIndex)
	*q = slices.Insert(*q, i, t)
}

func (q *queue) pop() *task {
	t := (*q)[0]
	*q = (*q)[1:]
	return t
}

func (q *queue) remove(t *task) {
	if i, found := slices.BinarySearchFunc(*q, t, byIndex); found {
		*q = slices.Delete(*q, i, i+1)
	}
}
