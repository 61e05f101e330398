package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// The words that events have for how a rung stands. Ladder has the rungs.
const (
	Ready   = "ready"
	Waiting = "waiting"
	Failed  = "failed"
	Unknown = "unknown"
)

// Ladder are the rungs of a webhook's ladder, lowest first, as events name them.
var Ladder = []string{"configured", "trusted", "routed", "backed", "serving", "admitting"}

// admitting is the highest rung.
var admitting = Ladder[len(Ladder)-1]

// Webhook is the history of one webhook, over all steps that met it.
type Webhook struct {
	// Cluster is that of the plan which the webhook is in; "" when the plan names none.
	Cluster string `json:"cluster,omitempty"`
	// Kind is mutating, validating or conversion, where a step waited for the webhook
	// itself, and Configuration configures it.
	Kind          string `json:"kind,omitempty"`
	Configuration string `json:"configuration,omitempty"`
	// Name is the webhook's, or runner.APIServer; empty when the API server did
	// not say which one it is. Namesake says that another webhook of the cluster has it.
	Name     string `json:"name"`
	Namesake bool   `json:"-"`
	// Service is the Service behind it, as namespace/name, and Owner is who brought the
	// configuration.
	Service string `json:"service,omitempty"`
	Owner   string `json:"owner,omitempty"`
	// Requests counts all that it held, Held those that it holds now, Failed
	// those that were given up. Sends counts how often they were sent.
	Requests int `json:"requests"`
	Held     int `json:"waiting,omitempty"`
	Failed   int `json:"failed,omitempty"`
	Sends    int `json:"sends,omitempty"`
	// Longest is the longest time that a request was held which is over.
	Longest time.Duration `json:"-"`
	// Rungs are how it stood, in order: the lowest rung that it had not reached,
	// or the highest one once it had reached all. Between two there is a gap
	// where no step looked at it.
	Rungs []Rung `json:"-"`
	// Holds are the requests that it held, in the order that they came.
	Holds []*Hold `json:"-"`

	holding   time.Duration // complete times with at least one held request
	heldSince time.Time     // set while there is one
	reached   map[string]time.Time
	told      time.Time // of the first Rung
	watchers  int       // steps at work that told how it stands
}

// Rung is how a webhook stood at one rung of its ladder.
type Rung struct {
	// Name is one of Ladder.
	Name string `json:"rung"`
	// State is Ready, Waiting, Failed or Unknown. It is "" above a rung that was not reached.
	State string `json:"state,omitempty"`
	// Cause says why it is not Ready, and Explanation that in words that take no
	// knowledge of Kubernetes.
	Cause       string `json:"cause,omitempty"`
	Explanation string `json:"explanation,omitempty"`
	// From is since when, To until when: zero while it lasts.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Found says that it stood so when it was first looked at.
	Found bool `json:"found,omitempty"`
}

// Hold is a request that was held.
type Hold struct {
	// Step sent it, and Object is what it was about.
	Step   string `json:"step"`
	Object string `json:"object,omitempty"`
	// Cause is why the webhook could not answer, as last told, and Explanation that
	// in words that take no knowledge of Kubernetes.
	Cause       string `json:"cause,omitempty"`
	Explanation string `json:"explanation,omitempty"`
	// From is when it was held first, To when it was answered or given up: zero
	// while it is held.
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero"`
	// Sends counts how often it was sent, once it is over.
	Sends int `json:"sends,omitempty"`
	// Error is why it was given up.
	Error string `json:"error,omitempty"`

	webhook *Webhook
}

// hold notes a request that is held. One that is told again only has another cause.
func (t *Timeline) hold(s *Step, e runner.Event) {
	w := cmp.Or(e.Webhook, &runner.Webhook{})
	if i := slices.IndexFunc(s.open, func(h *Hold) bool { return h.webhook.Name == w.Name && h.Object == e.Object }); i >= 0 && e.Object != "" {
		s.open[i].Cause, s.open[i].Explanation = w.Cause, w.Explanation
		return
	}
	hook := t.webhook(s, w)
	h := &Hold{Step: s.Name, Object: e.Object, Cause: w.Cause, Explanation: w.Explanation, From: e.Time, webhook: hook}
	s.open = append(s.open, h)
	if hook.Requests < HoldLimit {
		hook.Holds = append(hook.Holds, h)
	}
	hook.Requests++
	if hook.Held == 0 {
		hook.heldSince = e.Time
	}
	hook.Held++
}

// release ends the hold of the request that the event names, or else the one
// that fits best, as runner.Execution does.
func (s *Step) release(e runner.Event) {
	w := cmp.Or(e.Webhook, &runner.Webhook{})
	for _, fits := range []func(*Hold) bool{
		func(h *Hold) bool { return h.webhook.Name == w.Name && h.Object == e.Object },
		func(h *Hold) bool { return e.Object != "" && h.Object == e.Object },
		func(h *Hold) bool { return h.webhook.Name == w.Name },
	} {
		i := slices.IndexFunc(s.open, fits)
		if i < 0 {
			continue
		}
		h := s.open[i]
		s.open = slices.Delete(s.open, i, i+1)
		if w.Cause != "" {
			h.Cause, h.Explanation = w.Cause, w.Explanation
		}
		h.end(e.Time, w.Sends, e.Error)
		if e.Error == "" && h.webhook.Held == 0 && len(h.webhook.Rungs) > 0 {
			// The API server got its answer, which is what the highest rung asks.
			h.webhook.climb(Rung{Name: admitting, State: Ready, From: e.Time})
		}
		return
	}
}

func (h *Hold) end(now time.Time, sends int, err string) {
	h.To, h.Sends, h.Error = now, sends, err
	hook := h.webhook
	hook.Held--
	hook.Sends += sends
	hook.Longest = max(hook.Longest, now.Sub(h.From))
	if err != "" {
		hook.Failed++
	}
	if hook.Held == 0 {
		hook.holding += now.Sub(hook.heldSince)
		hook.heldSince = time.Time{}
	}
}

func (t *Timeline) stand(s *Step, e runner.Event) {
	w := e.Webhook
	if w == nil {
		return
	}
	hook := t.webhook(s, w)
	if w.Owner != "" {
		hook.Owner = w.Owner
	}
	if s.State.Active() && !slices.Contains(s.webhooks, hook) {
		s.webhooks = append(s.webhooks, hook)
		hook.watchers++
	}
	hook.climb(Rung{Name: w.Rung, State: w.State, Cause: w.Cause, Explanation: w.Explanation, From: e.Time})
}

// webhook returns the history of a webhook. Events of held requests do not name the
// configuration: they belong to the webhook of that name, and its Service if
// there are several.
func (t *Timeline) webhook(s *Step, w *runner.Webhook) *Webhook {
	named := func(hook *Webhook) bool { return hook.Cluster == s.Cluster && hook.Name == w.Name }
	same := func(hook *Webhook) bool {
		return named(hook) && (hook.Kind == w.Kind || hook.Kind == "" || w.Kind == "")
	}
	for _, fits := range []func(*Webhook) bool{
		func(hook *Webhook) bool { return hook.Configuration == w.Configuration && hook.Service == w.Service },
		func(hook *Webhook) bool { return hook.Configuration == w.Configuration && w.Configuration != "" },
		func(hook *Webhook) bool {
			return hook.Configuration == "" && (hook.Service == w.Service || hook.Service == "")
		},
		func(hook *Webhook) bool {
			return w.Configuration == "" && (hook.Service == w.Service || w.Service == "")
		},
	} {
		if i := slices.IndexFunc(t.webhooks, func(hook *Webhook) bool { return same(hook) && fits(hook) }); i >= 0 {
			hook := t.webhooks[i]
			hook.Configuration = cmp.Or(w.Configuration, hook.Configuration)
			hook.Service, hook.Kind = cmp.Or(w.Service, hook.Service), cmp.Or(w.Kind, hook.Kind)
			return hook
		}
	}
	hook := &Webhook{Cluster: s.Cluster, Configuration: w.Configuration, Kind: w.Kind, Name: w.Name, Service: w.Service}
	for _, other := range t.webhooks {
		if named(other) {
			hook.Namesake, other.Namesake = true, true
		}
	}
	t.webhooks = append(t.webhooks, hook)
	return hook
}

// climb notes how the webhook stands from r.From on.
func (w *Webhook) climb(r Rung) {
	first := len(w.Rungs) == 0
	if first {
		w.told, w.reached = r.From, map[string]time.Time{}
	}
	r.Found = first
	at := slices.Index(Ladder, r.Name)
	for i, name := range Ladder {
		switch _, known := w.reached[name]; {
		case i < at || i == at && r.State == Ready:
			if !known {
				w.reached[name] = r.From
			}
		default:
			delete(w.reached, name)
		}
	}
	if last, _ := w.Now(); !first && last.To.IsZero() && last.Name == r.Name && last.State == r.State && last.Cause == r.Cause {
		return
	}
	w.closeRung(r.From)
	w.Rungs = push(w.Rungs, r, RungLimit)
}

func (w *Webhook) closeRung(now time.Time) {
	if i := len(w.Rungs) - 1; i >= 0 && w.Rungs[i].To.IsZero() {
		w.Rungs[i].To = now
	}
}

// unwatch notes that a step looks at the webhook no more. Once none does, what
// it lacked last is not known to last; what it reached is taken to.
func (w *Webhook) unwatch(now time.Time) {
	w.watchers--
	if last, told := w.Now(); w.watchers == 0 && told && last.State != Ready {
		w.closeRung(now)
	}
}

// Now returns how the webhook was last told to stand; false when that was never told.
func (w *Webhook) Now() (Rung, bool) {
	if len(w.Rungs) == 0 {
		return Rung{}, false
	}
	return w.Rungs[len(w.Rungs)-1], true
}

// Ladder returns how each rung stands by what was told last, lowest first; nil when
// nothing was told. From says since when a rung is Ready, or stands at its
// cause. A webhook that has no Service has no rungs routed and backed.
func (w *Webhook) Ladder() []Rung {
	now, ok := w.Now()
	if !ok {
		return nil
	}
	reached := func(name string) Rung {
		since := w.reached[name]
		return Rung{Name: name, State: Ready, From: since, Found: since.Equal(w.told)}
	}
	switch {
	case !slices.Contains(Ladder, now.Name): // one that this version does not know
		return append(Rungs(now, w.Service, reached), now)
	case now.State == Ready:
		now = reached(now.Name)
	default:
		now.From = w.since()
	}
	return Rungs(now, w.Service, reached)
}

// Rungs returns how each rung stands of a webhook that stands at now: those below are
// as reached returns them, and nothing is known of those above.
func Rungs(now Rung, service string, reached func(name string) Rung) []Rung {
	var all []Rung
	at := slices.Index(Ladder, now.Name)
	for i, name := range Ladder {
		switch {
		case i == at:
			all = append(all, now)
		case service == "" && (name == "routed" || name == "backed"):
		case i < at:
			all = append(all, reached(name))
		default:
			all = append(all, Rung{Name: name})
		}
	}
	return all
}

// since returns the time from which the webhook is at its rung and state, whatever the
// cause.
func (w *Webhook) since() time.Time {
	i := len(w.Rungs) - 1
	for i > 0 && w.Rungs[i-1].Name == w.Rungs[i].Name && w.Rungs[i-1].State == w.Rungs[i].State && w.Rungs[i-1].To.Equal(w.Rungs[i].From) {
		i--
	}
	return w.Rungs[i].From
}

// LongestAt returns the longest time that a request was held, or is by now.
func (w *Webhook) LongestAt(now time.Time) time.Duration {
	longest := w.Longest
	for _, h := range w.Holds {
		if h.To.IsZero() {
			longest = max(longest, now.Sub(h.From))
		}
	}
	if w.Held > 0 && w.Requests > HoldLimit { // it may be one that is not listed
		longest = max(longest, now.Sub(w.heldSince))
	}
	return longest
}

// HoldTime returns how long the webhook held at least one request, up to now.
func (w *Webhook) HoldTime(now time.Time) time.Duration {
	if w.heldSince.IsZero() {
		return w.holding
	}
	return w.holding + max(now.Sub(w.heldSince), 0)
}
