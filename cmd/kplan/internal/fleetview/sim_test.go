package fleetview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/fleet"
)

var dawn = time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)

// sim is a run of a fleet whose clusters do as they are told, at times that are the same
// each time. What may start is decided as in a real run.
type sim struct {
	x      fleet.Execution
	now    time.Time
	events []fleet.Event
	to     []fleet.Event // what will happen, with its time
	// does returns what a cluster does once it is begun, with the times after that.
	does func(c *fleet.ClusterStatus, round int) []fleet.Event
	// asked is what people order as soon as a wave enters approval.
	asked time.Duration
}

func (s *sim) emit(e fleet.Event) {
	e.Seq, e.Time = len(s.events)+1, s.now
	s.events = append(s.events, e)
	s.x.Apply(e)
	if e.Type == fleet.TypeWave && e.WaveState == fleet.WaveApproval {
		c := s.x.Control
		c.Approve(e.Wave)
		c.By = "ada@desk"
		s.later(s.asked, fleet.Event{Type: fleet.TypeControl, Control: &c, By: c.By})
	}
}

func (s *sim) later(d time.Duration, e fleet.Event) {
	e.Time = s.now.Add(d)
	at, _ := slices.BinarySearchFunc(s.to, e.Time.Add(1), func(o fleet.Event, t time.Time) int { return o.Time.Compare(t) })
	s.to = slices.Insert(s.to, at, e)
}

// round goes on until the round is over.
func (s *sim) round() {
	for range 100000 {
		d := s.x.Decide(s.now)
		for _, e := range d.Events {
			s.emit(e)
		}
		for _, name := range d.Start {
			c := s.x.Cluster(name)
			s.emit(fleet.Event{Type: fleet.TypeCluster, Cluster: name, Wave: c.Wave, State: fleet.Running, Attempt: c.Attempt + 1})
			for _, e := range s.does(c, s.x.Round) {
				e.Type, e.Cluster, e.Wave = fleet.TypeCluster, name, c.Wave
				s.later(e.Time.Sub(time.Time{}), e)
			}
		}
		switch {
		case len(d.Events)+len(d.Start) > 0:
			continue
		case d.Over:
			s.emit(fleet.Event{Type: fleet.TypeDone, RunState: s.x.Outcome(), Counts: s.x.Counts()})
			return
		}
		s.next(d.Again)
	}
	panic("the run does not end")
}

// next lets time pass until something happens.
func (s *sim) next(again time.Time) {
	switch {
	case len(s.to) > 0 && (again.IsZero() || !s.to[0].Time.After(again)):
		e := s.to[0]
		s.to = s.to[1:]
		s.now = e.Time
		if c := s.x.Cluster(e.Cluster); e.Type == fleet.TypeCluster && c.State.Over() {
			return // it was stopped meanwhile
		}
		s.emit(e)
	case !again.IsZero():
		s.now = again
	default:
		panic("nothing will happen")
	}
}

// scene is a fleet of waves with clusters in three regions.
func scene(limits fleet.Limits, waves ...fleet.WaveInfo) *sim {
	first := fleet.Event{
		Type: fleet.TypeFleet, Version: fleet.EventVersion, Fleet: "edge", Plan: "operators", Run: "20261125-020000-5f0c", Engine: "local",
		Digest: "sha256:0d3f1c2e", By: "ada@desk", Program: "kplan v1.2.3", Waves: waves, Limits: &limits, Round: 1,
	}
	n := 0
	for _, w := range waves {
		for range w.Clusters {
			name := fmt.Sprintf("prod/%s-%02d", []string{"east", "north", "west"}[n%3], n/3+1)
			first.Clusters = append(first.Clusters, fleet.ClusterInfo{
				Name: name, Wave: w.Name, Server: fmt.Sprintf("https://10.0.%d.%d:6443", n/250, n%250+1), Source: "capi mgmt " + name,
			})
			n++
		}
	}
	s := &sim{now: dawn, asked: 5 * time.Minute, does: goodDay}
	s.emit(first)
	return s
}

// three are 60 clusters in three waves: the second has soak time, the third wants approval.
func three() []fleet.WaveInfo {
	return []fleet.WaveInfo{
		{Name: "canary", Parallel: 3, Clusters: 6},
		{Name: "early", Parallel: 6, MaxFailures: 2, SoakSeconds: 600, Clusters: 18},
		{Name: "rest", Parallel: 12, MaxFailures: 3, Approve: true, Clusters: 36},
	}
}

// number tells clusters apart.
func number(c *fleet.ClusterStatus) int {
	n := 0
	for _, b := range []byte(c.Name) {
		n = (n*31 + int(b)) % 10007
	}
	return n
}

func after(d time.Duration, e fleet.Event) fleet.Event {
	e.Time = time.Time{}.Add(d)
	return e
}

var planSteps = []string{"operator", "objects", "ready"}

func at(done int) *fleet.Progress {
	return &fleet.Progress{Done: done, Total: len(planSteps), Step: planSteps[min(done, len(planSteps)-1)], Message: "creating 10 objects"}
}

// end is how a cluster ends.
func end(took time.Duration, r fleet.Result) fleet.Event {
	r.Run = "20261125-020000-1"
	r.Started, r.Ended = dawn, dawn.Add(took)
	return after(took, fleet.Event{State: r.State, Result: &r})
}

// goodDay lets all succeed: of some the requests are held for a webhook, and some have
// nothing to do.
func goodDay(c *fleet.ClusterStatus, _ int) []fleet.Event {
	n := number(c)
	took := time.Duration(20+n%40) * time.Second
	switch {
	case n%7 == 0:
		return []fleet.Event{end(4*time.Second, fleet.Result{State: fleet.Unchanged, Steps: map[string]int{"unchanged": 3}})}
	case n%4 == 0:
		hold := func(requests int, cause string) *fleet.Hold {
			return &fleet.Hold{Webhook: "vmalerts.example.com", Service: "monitoring/vm-operator", Cause: cause, Requests: requests}
		}
		return []fleet.Event{
			after(2*time.Second, fleet.Event{State: fleet.Running, Progress: at(1)}),
			after(5*time.Second, fleet.Event{State: fleet.Holding, Progress: at(1), Hold: hold(4, "no endpoints")}),
			after(15*time.Second, fleet.Event{State: fleet.Holding, Progress: at(1), Hold: hold(6, fmt.Sprintf("dial tcp 10.96.%d.1:443: connect: connection refused", n%200))}),
			after(24*time.Second, fleet.Event{State: fleet.Running, Progress: at(2)}),
			end(took+24*time.Second, fleet.Result{State: fleet.Succeeded, Steps: map[string]int{"succeeded": 3}, HeldSeconds: 19}),
		}
	}
	return []fleet.Event{
		after(2*time.Second, fleet.Event{State: fleet.Running, Progress: at(1)}),
		after(took/2, fleet.Event{State: fleet.Running, Progress: at(2)}),
		end(took, fleet.Result{State: fleet.Succeeded, Steps: map[string]int{"succeeded": 3}}),
	}
}

// badDay lets some fail in the first round, of three causes.
func badDay(c *fleet.ClusterStatus, round int) []fleet.Event {
	n := number(c)
	fails := func(class fleet.Class, step, text, hint string) []fleet.Event {
		return []fleet.Event{
			after(2*time.Second, fleet.Event{State: fleet.Running, Progress: at(0)}),
			end(time.Duration(8+n%9)*time.Second, fleet.Result{
				State: fleet.Failed, Cause: fleet.NewCause(class, step, text, c.Name), Error: text, Hint: hint, Steps: map[string]int{"failed": 1, "blocked": 2},
			}),
		}
	}
	switch {
	case round > 1 || c.Wave == "canary":
	case n%5 == 1:
		return fails(fleet.Unreachable, "", fmt.Sprintf("cluster target (%s): dial tcp %s: connect: no route to host", c.Server, c.Server[8:]), "")
	case n%11 == 3:
		return fails(fleet.StepFailed, "operator", fmt.Sprintf("release monitoring/vm on %s: chart vm-operator 0.9.9 is not in the repository", c.Name), "check the version with: helm search repo vm-operator")
	case n%13 == 4:
		return fails(fleet.WebhookTimeout, "objects", fmt.Sprintf("timed out after 5m0s: webhook vmalerts.example.com: 0 of %d endpoints ready", n%3+1), "look at the pods of monitoring/vm-operator")
	}
	return goodDay(c, round)
}

// recordings are runs by name.
func recordings() map[string][]fleet.Event {
	good := scene(fleet.Limits{}, three()...)
	good.round()

	bad := scene(fleet.Limits{Unreachable: new(5), SameCause: new(4)}, three()...)
	bad.does = badDay
	bad.round()
	bad.now = bad.now.Add(time.Hour)
	bad.emit(fleet.Event{Type: fleet.TypeResume, Round: 2, By: "ben@desk"})
	bad.round()

	aborted := scene(fleet.Limits{}, three()...)
	aborted.later(20*time.Second, fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Paused: true, By: "ada@desk"}, By: "ada@desk"})
	aborted.later(3*time.Minute, fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{By: "ada@desk"}, By: "ada@desk"})
	aborted.later(4*time.Minute, fleet.Event{Type: fleet.TypeMessage, Message: "the record of prod/east-01 has no logs"})
	aborted.later(5*time.Minute, fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Aborted: true, By: "ben@desk"}, By: "ben@desk"})
	aborted.round()
	return map[string][]fleet.Event{"good": good.events, "resumed": bad.events, "aborted": aborted.events}
}

// crowd is a run of so many clusters in two waves, up to a time.
func crowd(n int, until time.Duration) []fleet.Event {
	s := scene(fleet.Limits{}, fleet.WaveInfo{Name: "canary", Parallel: 5, Clusters: 5}, fleet.WaveInfo{Name: "all", Parallel: n / 10, MaxFailures: n, Clusters: n - 5})
	s.does = badDay
	s.round()
	for i, e := range s.events {
		if e.Time.Sub(dawn) > until {
			return s.events[:i]
		}
	}
	return slices.Clip(s.events[:cmp.Or(len(s.events), 1)])
}
