// Package local runs a fleet in one process: it starts the plan on each cluster when its turn
// is, and tells what happens as events of package fleet.
//
// One goroutine, that of [Engine.Run], owns the state of a run. Clusters are worked on in
// goroutines of their own and reach it by messages. It does not know how a plan is run
// (package member does), or where orders come from but for the run's folder.
package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/runner"
)

const (
	// lookEvery is how often the run's folder is looked at for orders.
	lookEvery = 250 * time.Millisecond
	// inboxSize is how many messages wait for the loop before a sender waits.
	inboxSize = 256
	// lastWords is how long clusters have to end once the run was aborted.
	lastWords = 5 * time.Second
)

// Members runs the plan on clusters.
type Members interface {
	// Do runs it on one, and returns what became of it; see member.Config.
	Do(ctx context.Context, r member.Run) *fleet.Result
}

// Engine runs the rollout of a run's folder. Its fields are read when Run starts.
type Engine struct {
	Record  *record.Run
	Members Members
	// Parallel bounds how many clusters run at once, whatever a wave allows (default: as
	// many as it allows).
	Parallel int
	// By is who runs it, as USER@HOST, and Program with which kplan.
	By, Program string
	// Observe sees every event, in order, from the goroutine of Run. It must return at once.
	Observe func(fleet.Event)
	// Inner sees what happens within a cluster, in order, from a goroutine of its own; nil
	// for nobody.
	Inner func(cluster string, e runner.Event)
	// Abort, when closed, makes Run return soon, whatever still runs. Whoever makes it closes
	// it; nil means never.
	Abort <-chan struct{}
}

// AbortedError says that somebody ordered to end the run at once.
type AbortedError struct{ By string }

func (e *AbortedError) Error() string {
	if e.By == "" {
		return "the run of the fleet was aborted"
	}
	return "the run of the fleet was aborted by " + e.By
}

// MismatchError says that a folder has events of another rollout.
type MismatchError struct{ Run, Has, Want string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("run %s is of rollout %s, not of %s", e.Run, e.Has, e.Want)
}

// Run runs the fleet, or goes on with what an earlier call of Run left unfinished, and
// returns how it stands then. The error says what is wrong that is no cluster's.
//
// When ctx ends nothing new starts and the clusters at work are told to stop, with the same
// cause, as runner.Runner.Run does. Run then waits for them.
func (e *Engine) Run(ctx context.Context) (*fleet.Execution, error) {
	l := &loop{
		Engine: e, x: &fleet.Execution{}, inbox: make(chan message, inboxSize), over: make(chan struct{}), running: map[string]bool{}, control: newControl(e.Record),
		clusters: map[string]*fleet.Cluster{}, own: e.Record.Rollout.Own(),
	}
	for i, c := range e.Record.Rollout.Clusters {
		l.clusters[c.Name] = &e.Record.Rollout.Clusters[i]
	}
	defer close(l.over) // nobody reads the inbox any more
	journal, err := e.Record.Journal(func(old fleet.Event) { l.seq = old.Seq; l.x.Apply(old) })
	if err != nil {
		return nil, err
	}
	l.journal = journal
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	l.work, l.stop = work, stop
	err = l.begin()
	if err == nil {
		l.run(ctx)
	}
	return l.x, errors.Join(err, journal.Close())
}

// loop is one call of Run. Only its goroutine uses it, but for inbox and over.
type loop struct {
	*Engine
	x       *fleet.Execution
	seq     int
	journal *record.Journal
	control *control

	// work is the context of the clusters' runs, which stop ends.
	work context.Context
	stop context.CancelCauseFunc

	inbox   chan message
	over    chan struct{} // closed when nobody reads inbox any more
	running map[string]bool
	// clusters are the rollout's by name, and own the names that each alone has.
	clusters map[string]*fleet.Cluster
	own      map[string][]string
}

// message is what a cluster's goroutine tells: an event, or that it is over.
type message struct {
	event fleet.Event
	over  bool
}

// emit numbers an event and tells it everybody.
func (l *loop) emit(e fleet.Event) {
	l.seq++
	e.Seq, e.Time = l.seq, time.Now().UTC()
	if e.Time.Before(l.x.Last) { // a clock may go back
		e.Time = l.x.Last
	}
	l.journal.Write(e)
	l.x.Apply(e)
	if l.Observe != nil {
		l.Observe(e)
	}
}

// begin tells the first event of the run, or of another round.
func (l *loop) begin() error {
	r := l.Record.Rollout
	if l.seq == 0 {
		l.emit(First(r, l.Record.ID, l.By, l.Program))
		return l.control.reset()
	}
	if l.x.First.Digest != r.Digest {
		return &MismatchError{Run: l.Record.ID, Has: l.x.First.Digest, Want: r.Digest}
	}
	if l.Observe != nil { // who shows the run must know what was before
		events, err := l.Record.Events()
		if err != nil {
			return err
		}
		for _, e := range events {
			l.Observe(e)
		}
	}
	if err := l.control.reset(); err != nil {
		return err
	}
	l.emit(fleet.Event{Type: fleet.TypeResume, Round: l.x.Round + 1, By: l.By, Program: l.Program})
	return nil
}

// First is the first event of a rollout's run.
func First(r *fleet.Rollout, run, by, program string) fleet.Event {
	e := fleet.Event{
		Type: fleet.TypeFleet, Version: fleet.EventVersion, Fleet: r.Fleet, Plan: r.Plan, Run: run, Engine: r.Engine, Digest: r.Digest,
		By: by, Program: program, Waves: r.Waves, Limits: &r.Limits, Round: 1, Clusters: make([]fleet.ClusterInfo, 0, len(r.Clusters)),
	}
	for _, c := range r.Clusters {
		e.Clusters = append(e.Clusters, fleet.ClusterInfo{Name: c.Name, Wave: c.Wave, Server: c.Server, Source: sourceOf(c.Source)})
	}
	return e
}

// sourceOf says for people where a cluster was found.
func sourceOf(s fleet.Source) string {
	text := s.Kind
	for _, part := range []string{s.Cluster, s.Object} {
		if part != "" {
			text += " " + part
		}
	}
	return text
}
