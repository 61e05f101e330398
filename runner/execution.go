package runner

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Execution is the fold of a run's events: what is known after the last one
// that was applied. The zero value is ready for the first event. Folding the
// recorded events of a run gives the Execution that Run returned.
//
// It is not safe for concurrent use: every renderer keeps its own.
type Execution struct {
	plan    string
	state   State
	err     string
	seq     int
	started time.Time
	last    time.Time
	steps   []*Step
	byName  map[string]*Step
	guards  []Guard
	// fetched and wanted count what is fetched ahead of the steps.
	fetched, wanted int
	paused          bool
	findings        []Event
}

// Step is what is known of one step.
type Step struct {
	StepInfo
	State State
	// Attempt counts from 1 once the step started; Attempts is the most there can be.
	Attempt, Attempts int
	// Started is when the first attempt began, Ended when the step became terminal.
	Started, Ended time.Time
	// Since is when the step entered State.
	Since time.Time
	// Message is the latest progress, the result, or why the step did not run.
	Message string
	// Error and Hint are of the last attempt that failed.
	Error, Hint string
	// Delay is how long a retrying step waits at most.
	Delay time.Duration
	// Object, Done and Total are of the latest progress.
	Object      string
	Done, Total int
	// WaitsFor is the step that a pending one waits for, because it has the concurrency
	// group, as it was when the wait began; see Execution.Holder.
	WaitsFor string
	// Revision is the Helm release's; 0 when there is none.
	Revision int
	// Objects are those that the step applied, in the order in which they were told
	// of, and Release is the one that it installed; nil when there is none.
	Objects []Applied
	Release *Release
	// Digest is of what the step was made of; "" before it is done.
	Digest string
	// Holds are the webhooks that held requests, in the order they were met.
	Holds []*Hold
	// Webhooks are those that the step waits for, or waited for, as they were
	// last told to stand, in the order they were first told of.
	Webhooks []*WebhookStatus
	// Hooks are those of the step's chart that ran, in the order in which they did first.
	Hooks []*HookRun
	// Outputs are the values that the latest attempt found for later steps, by
	// name, as far as they may be shown.
	Outputs map[string]any

	places    map[Applied]int // in Objects, by what identifies each
	open      []openHold
	holding   time.Duration // complete times with at least one held request
	heldSince time.Time     // set while there is one
	waited    time.Duration // complete times of waiting for the concurrency group
	waitSince time.Time     // set while it waits for it
}

// Hold sums up the requests of one step that were held for one webhook.
type Hold struct {
	// Webhook, Service, Cause and Explanation are as last reported.
	Webhook, Service, Cause, Explanation string
	// Object is that of the first request.
	Object string
	// Requests counts all that were ever held, Waiting those that still are,
	// Failed those that were given up.
	Requests, Waiting, Failed int
	// Sends counts how often requests that are over were sent, in all.
	Sends int
	// Total is the sum of all hold times that are over, Longest the longest one; see
	// Step.HoldsAt for those that last.
	Total, Longest time.Duration
	// FirstCause is why the first request got no answer, and From when it was held.
	FirstCause string
	From       time.Time
	// Admitted is when a request was answered first, and Stable when one was last; zero
	// when none was.
	Admitted, Stable time.Time
}

// WebhookStatus is how a webhook stands.
type WebhookStatus struct {
	Webhook
	// Since is when it was first told to stand at its rung and state.
	Since time.Time
}

// openHold is a request that is held now.
type openHold struct {
	hold   *Hold
	object string
	since  time.Time
}

// Apply folds one event. Events must come in order; those of steps that the
// first event did not list are ignored.
func (x *Execution) Apply(e Event) {
	x.seq, x.last = e.Seq, e.Time
	switch e.Type {
	case TypePlan:
		x.begin(e)
	case TypeGuards:
		x.guards = e.Guards
	case TypeFetch:
		x.fetched, x.wanted = e.Done, e.Total
	case TypeFinding:
		x.findings = append(x.findings, e)
	case TypePaused:
		x.paused = true
	case TypeCancel:
		x.err, x.paused = e.Error, false
	case TypeDone:
		x.state, x.err, x.paused = e.State, e.Error, false
	default:
		if s := x.byName[e.Step]; s != nil {
			s.apply(e)
			x.paused = x.paused && e.Type != TypeState
		}
	}
}

// apply folds an event of the step.
func (s *Step) apply(e Event) {
	switch e.Type {
	case TypeState:
		s.enter(e)
	case TypeHeld:
		s.hold(e)
	case TypeReleased:
		s.release(e)
	case TypeWebhook:
		s.setWebhook(e)
	case TypeHook:
		s.runHook(e)
	case TypeProgress, TypeResult:
		s.Message, s.Object = e.Message, e.Object
		// Counts belong to what is told with them: without, those of an earlier
		// stage are over.
		s.Done, s.Total = e.Done, e.Total
		if e.Revision > 0 {
			s.Revision = e.Revision
		}
		s.achieve(e)
	case TypeOutputs:
		if s.Outputs == nil {
			s.Outputs = map[string]any{}
		}
		maps.Copy(s.Outputs, e.Outputs)
	case TypeLog, TypePlan, TypeFinding, TypeFetch, TypeGuards, TypeOrder, TypePaused, TypeCancel, TypeDone:
	}
}

// achieve notes what the step applied. An object that one attempt created is found
// there by the next.
func (s *Step) achieve(e Event) {
	s.Release, s.Digest = cmp.Or(e.Release, s.Release), cmp.Or(e.Digest, s.Digest)
	if len(e.Objects) > 0 && s.places == nil {
		s.places = map[Applied]int{}
	}
	for _, o := range e.Objects {
		id := o
		id.Version, id.Created = "", false
		if i, known := s.places[id]; known {
			o.Created = o.Created || s.Objects[i].Created
			s.Objects[i] = o
			continue
		}
		s.places[id] = len(s.Objects)
		s.Objects = append(s.Objects, o)
	}
}

func (x *Execution) begin(e Event) {
	*x = Execution{
		plan: e.Plan, state: StateRunning, seq: e.Seq, started: e.Time, last: e.Time,
		steps:  make([]*Step, len(e.Steps)),
		byName: make(map[string]*Step, len(e.Steps)),
	}
	for i, info := range e.Steps {
		x.steps[i] = &Step{StepInfo: info, State: StatePending, Since: e.Time}
		x.byName[info.Name] = x.steps[i]
	}
}

func (s *Step) enter(e Event) {
	s.State, s.Since = e.State, e.Time
	s.awaitGroup(e)
	if e.Attempt > s.Attempt && e.State == StateRunning {
		s.Message, s.Object, s.Done, s.Total, s.Outputs = "", "", 0, 0, nil
	}
	if e.Attempt > 0 {
		s.Attempt, s.Attempts = e.Attempt, e.Attempts
	}
	if s.Started.IsZero() && e.State.Active() {
		s.Started = e.Time
	}
	if e.Message != "" {
		s.Message = e.Message
	}
	if e.Error != "" {
		s.Error, s.Hint = e.Error, e.Hint
	}
	s.Delay = seconds(e.DelaySeconds)
	if e.State.Good() || e.State == StatePending {
		s.Error, s.Hint = "", ""
	}
	s.Ended = time.Time{} // an order may let a step start over
	if e.State.Terminal() {
		s.Ended = e.Time
	}
	if !e.State.Active() { // nothing is held or run when no action is at work
		s.leaveHooks(e.Time)
		for len(s.open) > 0 {
			s.close(0, e.Time.Sub(s.open[0].since), e.Time).Failed++
		}
	}
}

// awaitGroup notes that the step begins to wait for its concurrency group, or that it
// does not wait any more.
func (s *Step) awaitGroup(e Event) {
	s.WaitsFor = e.WaitsFor
	switch waits := e.WaitsFor != ""; {
	case waits && s.waitSince.IsZero():
		s.waitSince = e.Time
	case !waits && !s.waitSince.IsZero():
		s.waited += e.Time.Sub(s.waitSince)
		s.waitSince = time.Time{}
	}
}

// hold notes a held request. One that is reported again only changes the cause.
func (s *Step) hold(e Event) {
	w := cmp.Or(e.Webhook, &Webhook{})
	h := s.holdOf(w.Name)
	h.Service, h.Cause, h.Explanation = w.Service, w.Cause, w.Explanation
	if e.Object != "" && slices.ContainsFunc(s.open, func(o openHold) bool { return o.hold == h && o.object == e.Object }) {
		return
	}
	if h.Requests == 0 {
		h.Object, h.FirstCause, h.From = e.Object, w.Cause, e.Time
	}
	h.Requests++
	h.Waiting++
	if len(s.open) == 0 {
		s.heldSince = e.Time
	}
	s.open = append(s.open, openHold{h, e.Object, e.Time})
}

// release ends the hold of the request that the event names, or else the one
// that fits best: it must not stay open because a cause or webhook changed.
func (s *Step) release(e Event) {
	w := cmp.Or(e.Webhook, &Webhook{})
	for _, fits := range []func(openHold) bool{
		func(o openHold) bool { return o.hold.Webhook == w.Name && o.object == e.Object },
		func(o openHold) bool { return e.Object != "" && o.object == e.Object },
		func(o openHold) bool { return o.hold.Webhook == w.Name },
	} {
		i := slices.IndexFunc(s.open, fits)
		if i < 0 {
			continue
		}
		held := seconds(w.HeldSeconds)
		if held == 0 {
			held = e.Time.Sub(s.open[i].since)
		}
		h := s.close(i, held, e.Time)
		h.Sends += w.Sends
		if e.Error != "" {
			h.Failed++
			return
		}
		if h.Stable = e.Time; h.Admitted.IsZero() {
			h.Admitted = e.Time
		}
		return
	}
}

// setWebhook notes how a webhook stands.
func (s *Step) setWebhook(e Event) {
	if e.Webhook == nil {
		return
	}
	i := slices.IndexFunc(s.Webhooks, func(w *WebhookStatus) bool {
		return w.Name == e.Webhook.Name && w.Configuration == e.Webhook.Configuration && w.Kind == e.Webhook.Kind
	})
	if i < 0 {
		s.Webhooks, i = append(s.Webhooks, &WebhookStatus{Since: e.Time}), len(s.Webhooks)
	}
	w := s.Webhooks[i]
	if w.Rung != e.Webhook.Rung || w.State != e.Webhook.State {
		w.Since = e.Time
	}
	w.Webhook = *e.Webhook
}

func (s *Step) close(i int, held time.Duration, now time.Time) *Hold {
	h := s.open[i].hold
	h.Waiting--
	h.Total += held
	h.Longest = max(h.Longest, held)
	s.open = slices.Delete(s.open, i, i+1)
	if len(s.open) == 0 {
		s.holding += now.Sub(s.heldSince)
		s.heldSince = time.Time{}
	}
	return h
}

func (s *Step) holdOf(webhook string) *Hold {
	for _, h := range s.Holds {
		if h.Webhook == webhook {
			return h
		}
	}
	h := &Hold{Webhook: webhook}
	s.Holds = append(s.Holds, h)
	return h
}

// Held is how many requests of the step are held now.
func (s *Step) Held() int { return len(s.open) }

// HoldsAt are the step's Holds with what is still held counted up to now.
func (s *Step) HoldsAt(now time.Time) []*Hold {
	all := make([]*Hold, len(s.Holds))
	for i, h := range s.Holds {
		sum := *h
		for _, o := range s.open {
			if held := now.Sub(o.since); o.hold == h && held > 0 {
				sum.Total += held
				sum.Longest = max(sum.Longest, held)
			}
		}
		all[i] = &sum
	}
	return all
}

// HoldTime is how long the step had at least one held request, up to now.
// Requests that were held side by side count once.
func (s *Step) HoldTime(now time.Time) time.Duration {
	if s.heldSince.IsZero() {
		return s.holding
	}
	return s.holding + now.Sub(s.heldSince)
}

// GroupWait is how long the step waited for its concurrency group, up to now.
func (s *Step) GroupWait(now time.Time) time.Duration {
	if s.waitSince.IsZero() {
		return s.waited
	}
	return s.waited + now.Sub(s.waitSince)
}

// Elapsed is how long the step took, or takes by now; 0 if it never started.
func (s *Step) Elapsed(now time.Time) time.Duration {
	switch {
	case s.Started.IsZero():
		return 0
	case s.Ended.IsZero():
		return now.Sub(s.Started)
	}
	return s.Ended.Sub(s.Started)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
