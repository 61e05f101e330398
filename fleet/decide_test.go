package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
)

var dawn = time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)

// play is a run whose clusters end as told: it applies decisions until nothing is to be done.
type play struct {
	*fleet.Execution
	now   time.Time
	ends  map[string]fleet.Result // how clusters end; others succeed
	order []string                // what happened
	stays map[string]bool         // clusters that stay at work
}

func (p *play) apply(e fleet.Event) {
	e.Time = p.now
	p.Apply(e)
	switch e.Type {
	case fleet.TypeWave:
		p.order = append(p.order, fmt.Sprintf("%s %s", e.Wave, e.WaveState))
	case fleet.TypeCluster:
		p.order = append(p.order, fmt.Sprintf("%s %s", e.Cluster, e.State))
	case fleet.TypeStop:
		p.order = append(p.order, fmt.Sprintf("stop %s %d of %d", e.Reason.Kind, e.Reason.Failed, e.Reason.Allowed))
	default:
	}
}

// until plays until nothing more happens by itself, and reports whether the run is over.
func (p *play) until() bool {
	for range 1000 {
		d := p.Decide(p.now)
		for _, e := range d.Events {
			p.apply(e)
		}
		for _, name := range d.Start {
			p.apply(fleet.Event{Type: fleet.TypeCluster, Cluster: name, State: fleet.Running})
		}
		if len(d.Events)+len(d.Start) > 0 {
			continue
		}
		if !p.end() {
			return d.Over
		}
	}
	panic("the run does not end")
}

// end lets the first cluster at work end.
func (p *play) end() bool {
	for _, c := range p.Clusters {
		if !c.State.Active() || p.stays[c.Name] {
			continue
		}
		r, is := p.ends[c.Name]
		if !is {
			r.State = fleet.Succeeded
		}
		p.apply(fleet.Event{Type: fleet.TypeCluster, Cluster: c.Name, State: r.State, Result: &r})
		return true
	}
	return false
}

// begin is a run of waves with clusters named WAVE1, WAVE2, ….
func begin(limits fleet.Limits, waves ...fleet.WaveInfo) *play {
	first := fleet.Event{Type: fleet.TypeFleet, Time: dawn, Waves: waves, Limits: &limits}
	for _, w := range waves {
		for i := range w.Clusters {
			first.Clusters = append(first.Clusters, fleet.ClusterInfo{Name: fmt.Sprint(w.Name, i+1), Wave: w.Name})
		}
	}
	p := &play{Execution: &fleet.Execution{}, now: dawn, ends: map[string]fleet.Result{}, stays: map[string]bool{}}
	p.Apply(first)
	return p
}

func failure(class fleet.Class, text string) fleet.Result {
	return fleet.Result{State: fleet.Failed, Cause: &fleet.Cause{Class: class, Text: text}}
}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

func TestWavesOneAfterAnother(t *testing.T) {
	p := begin(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 2, Clusters: 3}, fleet.WaveInfo{Name: "b", Parallel: 1, Clusters: 1})
	require.True(t, p.until())
	require.Equal(t, lines(`
a running
a1 running
a2 running
a1 succeeded
a3 running
a2 succeeded
a3 succeeded
a succeeded
b running
b1 running
b1 succeeded
b succeeded`), p.order)
	require.Equal(t, fleet.Succeeded, p.Outcome())
}

// More failures than a wave allows let nothing new start; what is at work goes on.
func TestMaxFailures(t *testing.T) {
	p := begin(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 2, MaxFailures: 1, Clusters: 5}, fleet.WaveInfo{Name: "b", Parallel: 1, Clusters: 1})
	p.ends["a1"], p.ends["a2"] = failure(fleet.StepFailed, "x"), failure(fleet.StepFailed, "y")
	p.stays["a3"] = true
	require.False(t, p.until())
	require.Equal(t, lines(`
a running
a1 running
a2 running
a1 failed
a3 running
a2 failed
stop max_failures 2 of 1
a4 not_started
a5 not_started
b1 not_started
b not_started`), p.order)
	p.stays["a3"], p.order = false, nil
	require.True(t, p.until())
	require.Equal(t, lines("a3 succeeded\na failed"), p.order)
	require.Equal(t, fleet.Failed, p.Outcome())
}

// As many failures as a wave allows let the next one begin, and are told in the end.
func TestAllowedFailures(t *testing.T) {
	p := begin(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 5, MaxFailures: 1, Clusters: 3}, fleet.WaveInfo{Name: "b", Parallel: 1, Clusters: 1})
	p.ends["a2"] = failure(fleet.StepFailed, "x")
	require.True(t, p.until())
	require.Contains(t, p.order, "b succeeded")
	require.Equal(t, fleet.Failed, p.Outcome())
}

// A run that is stopped while a wave soaks goes on with that when it is resumed.
func TestStoppedInSoak(t *testing.T) {
	p := begin(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 1, SoakSeconds: 60, Clusters: 1}, fleet.WaveInfo{Name: "b", Parallel: 1, Clusters: 1})
	require.False(t, p.until())
	p.now = dawn.Add(20 * time.Second)
	p.apply(fleet.Event{Type: fleet.TypeStop, Reason: &fleet.Stop{Kind: fleet.StopInterrupted}})
	require.True(t, p.until())
	require.Equal(t, "b not_started", p.order[len(p.order)-1])
	p.now = dawn.Add(30 * time.Second)
	p.apply(fleet.Event{Type: fleet.TypeResume})
	require.False(t, p.until())
	require.Equal(t, fleet.WaveSoaking, p.Wave("a").State)
	require.Equal(t, dawn.Add(time.Minute), p.Decide(p.now).Again)
	p.now = dawn.Add(time.Minute)
	require.True(t, p.until())
	require.Equal(t, "b succeeded", p.order[len(p.order)-1])

	p.apply(fleet.Event{Type: fleet.TypeResume})
	require.Equal(t, fleet.WaveSucceeded, p.Wave("a").State, "a soak that is over is over")
}

func TestSoakAndApproval(t *testing.T) {
	p := begin(fleet.Limits{},
		fleet.WaveInfo{Name: "a", Parallel: 1, SoakSeconds: 60, Clusters: 1},
		fleet.WaveInfo{Name: "b", Parallel: 1, SoakSeconds: 60, Approve: true, Clusters: 1})
	require.False(t, p.until())
	require.Equal(t, "a soaking", p.order[len(p.order)-1])
	require.Equal(t, dawn.Add(time.Minute), p.Decide(p.now).Again)
	p.now = dawn.Add(time.Minute)
	require.False(t, p.until())
	require.Equal(t, "b approval", p.order[len(p.order)-1])
	p.apply(fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Approved: []string{"b"}}})
	require.True(t, p.until())
	require.Equal(t, "b succeeded", p.order[len(p.order)-1], "nothing comes after the last wave's soak time")
}

// What is paused starts nothing, and what is aborted never will.
func TestPauseAndAbort(t *testing.T) {
	p := begin(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 1, Clusters: 3})
	p.apply(fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Paused: true}})
	require.False(t, p.until())
	require.Empty(t, p.order)
	p.apply(fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{}})
	p.stays["a2"] = true
	require.False(t, p.until())
	p.apply(fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Aborted: true}})
	require.False(t, p.until(), "a2 is at work")
	p.stays["a2"] = false
	require.True(t, p.until())
	require.Equal(t, lines("stop aborted 0 of 0\na3 not_started\na2 succeeded\na failed"), p.order[len(p.order)-4:])
	require.Equal(t, fleet.Cancelled, p.Outcome())
}

// Failures of one cause stop the run wherever they are; a hold is none.
func TestSameCause(t *testing.T) {
	p := begin(fleet.Limits{SameCause: new(2)}, fleet.WaveInfo{Name: "a", Parallel: 1, MaxFailures: 9, Clusters: 9})
	p.ends["a1"], p.ends["a2"] = failure(fleet.WebhookTimeout, "x"), failure(fleet.WebhookTimeout, "y")
	p.ends["a4"], p.ends["a6"] = failure(fleet.WebhookTimeout, "x"), failure(fleet.WebhookTimeout, "x")
	require.True(t, p.until())
	require.Equal(t, 3, p.Counts()[fleet.NotStarted])
	require.Equal(t, "x", p.Stop.Cause.Text)
}

// Clusters that are out of reach have a limit of their own, and else count as others do.
func TestUnreachable(t *testing.T) {
	gone := failure(fleet.Unreachable, "away")
	for _, c := range []struct {
		limits fleet.Limits
		stop   string
	}{
		{fleet.Limits{}, fleet.StopFailures},
		{fleet.Limits{Unreachable: new(1), SameCause: new(0)}, fleet.StopUnreachable},
		{fleet.Limits{Unreachable: new(2), SameCause: new(0)}, ""},
	} {
		p := begin(c.limits, fleet.WaveInfo{Name: "a", Parallel: 1, Clusters: 4})
		p.ends["a1"], p.ends["a3"] = gone, gone
		require.True(t, p.until())
		if c.stop == "" {
			require.Nil(t, p.Stop)
			continue
		}
		require.Equal(t, c.stop, p.Stop.Kind)
	}
}

// Another round does what is unfinished, and nothing else.
func TestResume(t *testing.T) {
	p := begin(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 9, Clusters: 2}, fleet.WaveInfo{Name: "b", Parallel: 9, Approve: true, Clusters: 3})
	p.apply(fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Approved: []string{"b"}}})
	p.ends["b2"] = failure(fleet.StepFailed, "x")
	require.True(t, p.until())
	p.order, p.ends = nil, nil
	p.apply(fleet.Event{Type: fleet.TypeResume})
	require.True(t, p.until())
	require.Equal(t, lines("b running\nb2 running\nb2 succeeded\nb succeeded"), p.order)
	require.Equal(t, fleet.Succeeded, p.Outcome())
	require.Equal(t, 2, p.Round)
}
