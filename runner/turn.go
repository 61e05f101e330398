package runner

import "fmt"

// turn keeps the steps of one concurrency group from running at the same time.
//
// A step has the turn from its first attempt to its end, and over the delays between
// attempts too: what an attempt that failed has left half done is for the next one to
// mend, and the group is there so that no other step meets it. A step that waits for
// its turn takes no slot, and its timeout has not begun.
type turn struct {
	name   string
	holder *task // the step that has begun and has not ended; nil when there is none
	parked queue // those that may start but for the holder
}

// taken reports whether another step than t has the turn. A nil turn is always free.
func (u *turn) taken(t *task) bool { return u != nil && u.holder != nil && u.holder != t }

// awaitTurn parks t until the turn of its group is free, and tells that once.
func (s *schedule) awaitTurn(t *task) {
	t.turn.parked.push(t)
	if s.record.step(t).WaitsFor != "" {
		return
	}
	holder := t.turn.holder.step.Name
	s.record.enter(t, Event{
		State: StatePending, WaitsFor: holder, Message: fmt.Sprintf("waits for group %s (step %s)", t.turn.name, holder),
	})
}

// endTurn takes the turn from t, which has ended, and passes it on.
func (s *schedule) endTurn(t *task) {
	if t.turn == nil {
		return
	}
	if t.turn.holder == t {
		t.turn.holder = nil
	}
	s.passTurn(t.turn)
}

// passTurn makes the first step that is parked for a turn ready again, if the turn is
// free.
func (s *schedule) passTurn(u *turn) {
	if u != nil && u.holder == nil && len(u.parked) > 0 {
		s.ready.push(u.parked.pop())
	}
}
