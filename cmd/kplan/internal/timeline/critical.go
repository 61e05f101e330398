package timeline

import (
	"slices"
	"time"
)

// Critical names the steps whose ends chain to the end of the run, the first one
// first: the step that ended last, of the steps that it needs the one that ended
// last, and so on. To shorten the run, one of them has to take less time. Steps
// that never ran are not in it; a finally step counts as needing all others.
//
// While the run goes on, a step at work ends now.
func (t *Timeline) Critical(now time.Time) []string {
	now = t.End(now)
	ran := slices.DeleteFunc(slices.Clone(t.steps), func(s *Step) bool { return s.Started.IsZero() })
	var path []string
	seen := map[*Step]bool{}
	for last := latest(ran, now); last != nil && !seen[last]; last = latest(t.needs(last), now) {
		seen[last] = true
		if !last.Started.IsZero() {
			path = append(path, last.Name)
		}
	}
	slices.Reverse(path)
	return path
}

// needs returns the steps that s waits for, without itself: those of its concurrency
// group that ended before it began are among them.
func (t *Timeline) needs(s *Step) []*Step {
	var needs []*Step
	for _, name := range s.Needs {
		if need := t.byName[name]; need != nil && need != s {
			needs = append(needs, need)
		}
	}
	for _, other := range t.steps {
		inTurn := s.ConcurrencyGroup != "" && other.ConcurrencyGroup == s.ConcurrencyGroup && other != s &&
			!other.Started.IsZero() && !other.Ended.IsZero() && !other.Ended.After(s.Started)
		if s.Finally && !other.Finally || inTurn {
			needs = append(needs, other)
		}
	}
	return needs
}

// latest returns the step that ended last among those that ended or are at work. Of
// several that end together it is the one that began last and comes last in the plan;
// of several at work the one that is so for longest.
func latest(steps []*Step, now time.Time) *Step {
	var best *Step
	for _, s := range steps {
		if !s.end(now).IsZero() && (best == nil || s.outlasts(best, now)) {
			best = s
		}
	}
	return best
}

// outlasts reports whether s ended after o, which comes before it.
func (s *Step) outlasts(o *Step, now time.Time) bool {
	if c := s.end(now).Compare(o.end(now)); c != 0 {
		return c > 0
	}
	if s.Ended.IsZero() && o.Ended.IsZero() {
		return s.Started.Before(o.Started)
	}
	return !s.Started.Before(o.Started)
}

// end returns the time at which the step ended, now while it is at work or waits for an attempt,
// and zero before it started.
func (s *Step) end(now time.Time) time.Time {
	switch {
	case s.State.Terminal():
		return s.Ended
	case s.Started.IsZero():
		return time.Time{}
	}
	return now
}
