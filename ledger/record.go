package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// recordVersion is that of the form of records. Fields may be added within a version.
const recordVersion = 1

// Record is what is known of one run of a plan: the fold of its events, and what
// runs before it left behind. It has no sensitive values, since events have none.
type Record struct {
	Version int `json:"version"`
	Summary
	Steps []Step `json:"steps"`
	// Former are steps that earlier runs did and the plan does not have any more.
	Former []Step `json:"former,omitempty"`
	// Events are those of the run, without logs of pods where they come from a cluster.
	Events []runner.Event `json:"events,omitempty"`
}

// Summary says in short what became of a run.
type Summary struct {
	Run  string `json:"run"`
	Plan string `json:"plan"`
	// By is who ran it, as USER@HOST, Program with which kplan, and On the clusters that
	// it worked on.
	By      string `json:"by,omitempty"`
	Program string `json:"program,omitempty"`
	On      string `json:"on,omitempty"`
	// Started is when it began, Ended when it was last heard of.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// State is running for a run that is at work, and for one that was killed.
	State  runner.State         `json:"state"`
	Error  string               `json:"error,omitempty"`
	Counts map[runner.State]int `json:"counts"`
	// Seq is the number of the last event: of two records of a run the one with the
	// greater one knows more.
	Seq int `json:"seq"`
}

// Step is one step of a run.
type Step struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind"`
	Cluster string       `json:"cluster,omitempty"`
	State   runner.State `json:"state"`
	Attempt int          `json:"attempt,omitempty"`
	Started time.Time    `json:"started,omitzero"`
	Ended   time.Time    `json:"ended,omitzero"`
	Message string       `json:"message,omitempty"`
	Error   string       `json:"error,omitempty"`
	Hint    string       `json:"hint,omitempty"`
	// Outputs are those that may be shown.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Webhooks are those that the step waited for, or that its requests were held for.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	// Objects are those that the step applied in this run and those before, as far as
	// it got; Created is true if any of these runs made it.
	Objects []runner.Applied `json:"objects,omitempty"`
	// Left are objects that earlier runs created and the step does not have any more.
	Left []runner.Applied `json:"left,omitempty"`
	// Release and Revision are those of a helm step.
	Release  *runner.Release `json:"release,omitempty"`
	Revision int             `json:"revision,omitempty"`
	// Done says that the step is done, and since when. A step that did not start in
	// this run may have been done by one before.
	Done *Done `json:"done,omitempty"`
}

// Done is how a step was last done.
type Done struct {
	// Run is the run that did it, and At when.
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// Digest tells what the step was made of from all else; see Key.
	Digest string `json:"digest,omitempty"`
}

// Webhook is a webhook that a step met.
type Webhook struct {
	runner.Webhook
	// Requests were held for it, for so many seconds together.
	Requests    int     `json:"requests,omitempty"`
	HoldSeconds float64 `json:"hold_seconds,omitempty"`
}

// Fold makes the record of a run from its events, the first one included, and the
// record of the run before, which may be nil.
func Fold(events []runner.Event, before *Record) *Record {
	var x runner.Execution
	for _, e := range events {
		x.Apply(e)
	}
	return foldOf(&x, events, before)
}

// foldOf is Fold of events that x has folded.
func foldOf(x *runner.Execution, events []runner.Event, before *Record) *Record {
	first, last := events[0], events[len(events)-1]
	r := &Record{Version: recordVersion, Events: events, Summary: Summary{
		Run: first.Run, Plan: first.Plan, By: first.By, Program: first.Program, On: first.Message,
		Started: first.Time, Ended: last.Time, State: x.State(), Error: x.Err(), Counts: x.Counts(), Seq: last.Seq,
	}}
	for _, s := range x.Steps() {
		r.Steps = append(r.Steps, stepOf(s, first.Run, last.Time, before.Known(s.Name)))
	}
	if before == nil {
		return r
	}
	for _, s := range slices.Concat(before.Steps, before.Former) {
		if x.Step(s.Name) == nil && (len(s.Objects) > 0 || s.Release != nil) {
			r.Former = append(r.Former, s)
		}
	}
	return r
}

// stepOf makes a step of a run; before is how the run before left it, nil if that
// did not know it.
func stepOf(s *runner.Step, run string, now time.Time, before *Step) Step {
	out := Step{
		Name: s.Name, Kind: s.Kind, Cluster: s.Cluster, State: s.State, Attempt: s.Attempt, Started: s.Started, Ended: s.Ended,
		Message: s.Message, Error: s.Error, Hint: s.Hint, Outputs: s.Outputs, Webhooks: webhooksOf(s, now),
		Objects: slices.Clone(s.Objects), Release: s.Release, Revision: s.Revision,
	}
	done := s.State == runner.StateSucceeded || s.State == runner.StateUnchanged
	if done {
		out.Done = &Done{Run: run, At: s.Ended, Digest: s.Digest}
	}
	if before == nil || before.Cluster != s.Cluster || done && s.Kind == string(plan.KindDelete) { // what was deleted is nobody's
		return out
	}
	if s.Started.IsZero() && !done {
		out.Done = before.Done
	}
	if done && s.State == runner.StateUnchanged && before.Done != nil && before.Done.Digest == s.Digest {
		out.Done = before.Done
	}
	out.Release, out.Revision = cmp.Or(out.Release, before.Release), cmp.Or(out.Revision, before.Revision)
	out.inherit(before)
	return out
}

// inherit adds what is known of the step's objects from before: which were created,
// and those that the step does not have, or has yet to come to.
func (s *Step) inherit(before *Step) {
	places := map[runner.Applied]int{}
	for i, o := range s.Objects {
		places[identity(o)] = i
	}
	for _, o := range before.Objects {
		switch i, known := places[identity(o)]; {
		case known:
			s.Objects[i].Created = s.Objects[i].Created || o.Created
		case s.Done == nil || len(s.Objects) == 0:
			s.Objects = append(s.Objects, o)
		case o.Created:
			s.Left = append(s.Left, o)
		}
	}
	for _, o := range before.Left {
		if _, again := places[identity(o)]; !again {
			s.Left = append(s.Left, o)
		}
	}
}

func identity(o runner.Applied) runner.Applied {
	o.Version, o.Created = "", false
	return o
}

// webhooksOf are the webhooks that a step met.
func webhooksOf(s *runner.Step, now time.Time) []Webhook {
	var met []Webhook
	for _, w := range s.Webhooks {
		met = append(met, Webhook{Webhook: w.Webhook})
	}
	for _, h := range s.HoldsAt(now) {
		i := slices.IndexFunc(met, func(w Webhook) bool { return w.Name == h.Webhook })
		if i < 0 {
			i = len(met)
			met = append(met, Webhook{Webhook: runner.Webhook{Name: h.Webhook, Service: h.Service, Cause: h.Cause}})
		}
		met[i].Requests, met[i].HoldSeconds = h.Requests, h.Total.Seconds()
	}
	return met
}

// Step is the step of that name; nil when there is none, and of no record.
func (r *Record) Step(name string) *Step {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Steps[i]
}

// Known is the step of that name, also one that the run did not have.
func (r *Record) Known(name string) *Step {
	if s := r.Step(name); s != nil || r == nil {
		return s
	}
	if i := slices.IndexFunc(r.Former, func(s Step) bool { return s.Name == name }); i >= 0 {
		return &r.Former[i]
	}
	return nil
}

// Total is how many steps there are.
func (s Summary) Total() int {
	n := 0
	for count := range maps.Values(s.Counts) {
		n += count
	}
	return n
}

// Over reports whether the run has come to its end.
func (s Summary) Over() bool { return s.State != runner.StateRunning && s.State != "" }

// newer orders summaries, the newest first.
func newer(a, b Summary) int { return cmp.Or(cmp.Compare(b.Run, a.Run), cmp.Compare(b.Seq, a.Seq)) }
