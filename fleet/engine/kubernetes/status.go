package kubernetes

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// status is how a cluster stands by what its Job and its workers say.
type status struct {
	state   fleet.State
	attempt int
	started time.Time // when it was first begun
	at      time.Time // when it entered the state, as far as known
	result  *fleet.Result
	last    *corev1.Pod // its newest worker
}

// final are the exit codes after which no other worker follows.
var final = []int{0, object.ExitFailed, object.ExitUsage, object.ExitNotStarted}

// look finds how the cluster at an index of a Job stands. Active says that it was seen to be
// at work before.
func look(j *job, k int, all workers, active bool) status {
	latest := all.latest()
	s := status{state: fleet.Pending, started: all.began(), last: latest}
	if latest != nil && !startOf(latest).IsZero() {
		s.attempt = attempt(latest)
	}
	done := all.find(final...)
	switch {
	case j.completed.Has(k):
		return s.good(all)
	case j.failed.Has(k):
		return s.bad(all)
	case done != nil && endOf(done).ExitCode == 0:
		return s.good(all)
	case done != nil && resultOf(done) != nil:
		return s.bad(all)
	case (suspended(j.Job) || ended(j.Job)) && (latest == nil || gone(latest)):
		if active || !s.started.IsZero() {
			return s.cancelled(all)
		}
	case active || !s.started.IsZero():
		s.state, s.at = fleet.Running, s.started
	}
	return s
}

func (s status) good(all workers) status {
	p := all.find(0)
	s.state, s.at, s.result = fleet.Succeeded, endTime(p), resultOf(p)
	if s.result != nil && s.result.State.Good() {
		s.state = s.result.State
	}
	return s
}

func (s status) bad(all workers) status {
	p := all.find()
	s.state, s.at, s.result = fleet.Failed, endTime(p), resultOf(p)
	switch {
	case s.result == nil:
	case s.result.State.Good(): // it was killed after it had written that
		s.result = nil
	case s.result.State == fleet.NotStarted:
		return status{state: fleet.NotStarted, at: s.at}
	case s.result.State == fleet.Cancelled: // killed more often than it is tried
		s.state = fleet.Cancelled
	}
	return s
}

// cancelled is a cluster whose worker was stopped for good.
func (s status) cancelled(all workers) status {
	p := all.find()
	s.state, s.at, s.result = fleet.Cancelled, endTime(p), resultOf(p)
	if s.result == nil {
		return s
	}
	switch s.result.State {
	case fleet.Failed, fleet.NotStarted:
		s.state = s.result.State
	default:
	}
	if s.state == fleet.NotStarted {
		return status{state: fleet.NotStarted, at: s.at}
	}
	return s
}
