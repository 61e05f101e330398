package runner

import (
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/plan"
)

// Type says what an event tells.
type Type string

// The types of events.
const (
	// TypePlan is the first event of a run: it lists all steps.
	TypePlan Type = "plan"
	// TypeState says that a step entered State.
	TypeState Type = "state"
	// TypeProgress tells how far a running step is; renderers may thin it out.
	TypeProgress Type = "progress"
	// TypeHeld says that a request waits for a webhook.
	TypeHeld Type = "held"
	// TypeReleased says that a held request was answered, or given up (then Error is set).
	TypeReleased Type = "released"
	// TypeWebhook tells how a webhook stands that the step waits for.
	TypeWebhook Type = "webhook"
	// TypeGuards tells which steps' objects webhooks of the plan will intercept.
	// It comes once, some time after the first event, if anything is found.
	TypeGuards Type = "guards"
	// TypeHook says that a hook of a step's chart (Object) began, or how it ended.
	TypeHook Type = "hook"
	// TypeFetch says that a chart or file was fetched ahead of the steps that need it, how
	// many of them (Done of Total), or why one was not (Error); its step tries again.
	TypeFetch Type = "fetch"
	// TypeFinding tells of something that may keep steps from their work, found before that
	// happened.
	TypeFinding Type = "finding"
	// TypeLog is text of a step's log, of one line or several: kplan's own, or that
	// of Object.
	TypeLog Type = "log"
	// TypeResult is what a step's action achieved, just before the step succeeds.
	TypeResult Type = "result"
	// TypeOutputs gives values that a step found for later ones.
	TypeOutputs Type = "outputs"
	// TypeCancel says that the run was told to stop, and by what (Error): nothing
	// starts any more but the plan's finally steps, and what runs is asked to end.
	TypeCancel Type = "cancel"
	// TypeOrder says that somebody ordered something (Message: a Verb), and why it is
	// not done if Error is set.
	TypeOrder Type = "order"
	// TypePaused says that nothing is left to do but what failed, and that the run
	// waits for orders.
	TypePaused Type = "paused"
	// TypeDone is the last event of a run.
	TypeDone Type = "done"
)

// EventVersion is the version of the events' form, in the first event. Fields
// may be added within a version; none changes its meaning or goes away.
const EventVersion = 1

// Event is one fact about a run: a flat value, numbered from 1 without gaps.
// The JSON form of a run's events replays the run exactly.
type Event struct {
	// Seq counts from 1, without gaps.
	Seq int `json:"seq"`
	// Time never goes back within a run.
	Time time.Time `json:"time"`
	// Type says what the event tells.
	Type Type `json:"type"`
	// Version is that of the form of events (EventVersion), in the first event.
	Version int `json:"version,omitempty"`
	// Plan is the plan's name, in the first event.
	Plan string `json:"plan,omitempty"`
	// Run is the run's ID, in the first event; those of later runs sort after it.
	Run string `json:"run,omitempty"`
	// By is who runs it, as USER@HOST, and Program what, in the first event.
	By      string `json:"by,omitempty"`
	Program string `json:"program,omitempty"`
	// Steps are all steps in plan order, in the first event.
	Steps []StepInfo `json:"steps,omitempty"`
	// Guards are the webhooks that the plan itself brings, in guards.
	Guards []Guard `json:"guards,omitempty"`
	// Finding is what was found, in finding: Message and Hint say it, Object and Step are
	// what it is about.
	Finding *Finding `json:"finding,omitempty"`
	// Step is the step that the event is about; empty in plan, fetch, cancel and done, and
	// in a finding that concerns none.
	Step string `json:"step,omitempty"`
	// State is the step's, in state events, and that of the whole run in done.
	State State `json:"state,omitempty"`
	// Counts says how many steps ended in each state, in done.
	Counts map[State]int `json:"counts,omitempty"`
	// WaitsFor is the step that has begun and not ended of the concurrency group of a
	// step that could start but for that, in state pending, as the wait begins.
	WaitsFor string `json:"waits_for,omitempty"`
	// Attempt counts from 1; Attempts is the most that there can be.
	Attempt  int `json:"attempt,omitempty"`
	Attempts int `json:"attempts,omitempty"`
	// Message is for people: one line, but for log. In the first event it is
	// what the plan is run on.
	Message string `json:"message,omitempty"`
	// Error and Hint are set when something failed: why, and what can be done.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// DelaySeconds is how long the next attempt waits at most, in state retrying.
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
	// Object is what it is about, as Kind/namespace/name; in log what says it, a pod
	// with " container " and the container's name; "" is kplan itself.
	Object string `json:"object,omitempty"`
	// Of is the object that is waited for, whose pod says it, in log: as Object of
	// progress, or Service/namespace/name of a webhook's Service.
	Of string `json:"of,omitempty"`
	// Done and Total count the objects of the step that are as they should be, and
	// all of them, in progress; in fetch the charts.
	Done  int `json:"done,omitempty"`
	Total int `json:"total,omitempty"`
	// Revision is that of the Helm release: in progress when it was recorded, and in
	// result.
	Revision int `json:"revision,omitempty"`
	// Webhook is the one that holds a request, in held and released, and the one
	// that stands so, in webhook.
	Webhook *Webhook `json:"webhook,omitempty"`
	// Hook is the hook of a chart that began or ended, in hook. Object is its own, and
	// Error is why it failed.
	Hook *Hook `json:"hook,omitempty"`
	// Objects are those that the step applied: all of them in result, also in progress
	// as they are sent.
	Objects []Applied `json:"objects,omitempty"`
	// Release is the one that a helm step installed or upgraded, in result, and in
	// progress when a revision was recorded.
	Release *Release `json:"release,omitempty"`
	// Digest tells what the step was made of from all else, in result: the step with
	// its values, chart and manifests. It does not tell what these were.
	Digest string `json:"digest,omitempty"`
	// Outputs are values by name, in outputs. One that must not be shown is the
	// text (sensitive).
	Outputs map[string]any `json:"outputs,omitempty"`
}

// Applied is an object that a step applied, or found to be as it should.
type Applied struct {
	// Group, Version and Kind are its kind's, as it was sent; Group "" is the core one.
	Group   string `json:"group,omitempty"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Namespace and Name are its own; Namespace is "" for objects of the cluster.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Created says that the step made it: it was not there before.
	Created bool `json:"created,omitempty"`
}

// Release is a Helm release.
type Release struct {
	// Namespace and Name are its own.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// HiddenOutput stands for the value of an output that must not be shown.
const HiddenOutput = "(sensitive)"

// StepInfo is a step as the first event lists it.
type StepInfo struct {
	// Name is the step's in the plan; events name it so.
	Name string `json:"name"`
	// Kind is helm, apply, wait or webhook; "" is a command that kplan hold runs.
	Kind string `json:"kind"`
	// Group is the name of the step in the plan when it has one for each item.
	Group string `json:"group,omitempty"`
	// ConcurrencyGroup is the group of which no two steps run at the same time.
	ConcurrencyGroup string `json:"concurrency_group,omitempty"`
	// Cluster is that of the plan which the step works on; "" when the plan names none.
	Cluster string `json:"cluster,omitempty"`
	// Tags are those that pick steps.
	Tags []string `json:"tags,omitempty"`
	// Needs are the steps that must have ended before.
	Needs []string `json:"needs,omitempty"`
	// NeedsOn says how needed steps must have ended, where that is not success.
	NeedsOn map[string]plan.NeedOn `json:"needs_on,omitempty"`
	// Finally says that the step starts when all others have ended.
	Finally bool `json:"finally,omitempty"`
	// TimeoutSeconds bounds the step.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// RetryDelaySeconds is how long the step waits before its second attempt.
	RetryDelaySeconds float64 `json:"retry_delay_seconds,omitempty"`
	// File and Line are where the step stands in a file, as that was named when the
	// plan was read. Line counts from 1. Steps that one for_each makes share them.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Guard says that webhooks which one step brings intercept objects of another,
// or of the step itself.
type Guard struct {
	// Step sends the objects, By brings the webhooks.
	Step string `json:"step"`
	By   string `json:"by"`
	// Webhooks are the names of the webhooks, in order.
	Webhooks []string `json:"webhooks"`
	// Objects counts the objects that are intercepted.
	Objects int `json:"objects"`
	// Maybe says that it is not certain: it depends on what is not known before
	// the run, or the two steps run side by side.
	Maybe bool `json:"maybe,omitempty"`
	// Late says that the step had begun to send when this was found: it is true all
	// the same, and no news to people.
	Late bool `json:"late,omitempty"`
}

// String says it for people, without the step: webhooks of x judge 3 objects: a, b.
func (g Guard) String() string {
	whose, judge, objects := "webhooks of "+g.By, "judge", "objects"
	if g.By == g.Step {
		whose = "its own webhooks"
	}
	if g.Maybe {
		judge = "may judge"
	}
	if g.Objects == 1 {
		objects = "object"
	}
	return fmt.Sprintf("%s %s %d %s: %s", whose, judge, g.Objects, objects, strings.Join(g.Webhooks, ", "))
}

// Observer sees every event of a run, in order, from one goroutine. Observe
// must return at once: a slow one holds up the run.
type Observer interface {
	Observe(Event)
}
