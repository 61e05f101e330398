package survey

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
)

// Status is how one webhook stands.
type Status struct {
	webhook.Entry
	Ladder webhook.Ladder
	// Backing is what the ladder was read from; nil for a URL.
	Backing *webhook.Backing
}

// Statuses reads how the followed webhooks stand now, in the order of their
// configurations' names. For a fault of a webhook that is not configured, or
// whose configuration cannot be read, there is one with what the fault tells.
func (f *Subscription) Statuses() []Status {
	s := f.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var all []Status
	for _, e := range s.entries() {
		if f.target.wants(e) {
			all = append(all, s.status(e, now))
		}
	}
	if len(all) == 0 && f.target.Fault != nil {
		all = append(all, s.unconfigured(*f.target.Fault, f.target.resources(), now))
	}
	return all
}

// status returns the status of one webhook. The mutex is held.
func (s *Survey) status(e webhook.Entry, now time.Time) Status {
	st := Status{Entry: e}
	if b := s.services[e.Service()]; b != nil {
		st.Backing = b.read()
	} else if e.Client.Service != nil { // it was configured a moment ago
		st.Backing = &webhook.Backing{Unread: map[string]string{webhook.Services: unread, webhook.EndpointSlices: unread}}
	}
	st.Ladder = webhook.ReadLadder(&e, st.Backing, s.call(e), now)
	s.setSince(e, st.Ladder, now)
	return st
}

// unconfigured returns a status made of what a fault says of its webhook. Its
// configuration is missing only if all that could hold it can be read.
func (s *Survey) unconfigured(f webhook.Fault, resources []schema.GroupVersionResource, now time.Time) Status {
	e := webhook.Entry{Kind: f.Kind, Name: f.Webhook}
	if f.Service != "" {
		e.Client.Service = &admissionv1.ServiceReference{Namespace: f.Namespace, Name: f.Service}
		if port, err := strconv.ParseInt(f.Port, 10, 32); err == nil {
			e.Client.Service.Port = new(int32(port))
		}
	}
	why := ""
	for _, gvr := range resources {
		if c := s.configurations[gvr]; c != nil {
			why = cmp.Or(why, c.status().unknownReason())
		}
	}
	if why == "" {
		return Status{Entry: e, Ladder: webhook.ReadLadder(nil, nil, webhook.Call{}, now)}
	}
	st := s.status(e, now)
	for i, r := range st.Ladder {
		if r.Rung == webhook.Configured || r.Rung == webhook.Trusted {
			st.Ladder[i] = webhook.Reading{Rung: r.Rung, State: webhook.Unknown, Reason: why}
		}
	}
	return st
}

// call is what calls to e showed last.
func (s *Survey) call(e webhook.Entry) webhook.Call {
	var last webhook.Call
	for _, c := range s.calls {
		if c.of(e) && c.call.At.After(last.At) {
			last = c.call
		}
	}
	return last
}

// setSince fills in since when a rung stands as it does, where no object tells but
// it was seen to change.
func (s *Survey) setSince(e webhook.Entry, l webhook.Ladder, now time.Time) {
	for i, r := range l {
		key := rung{e.Kind, e.Configuration, e.Name, e.Created.UnixNano(), r.Rung}
		before, known := s.since[key]
		switch {
		case known && before.State == r.State:
			r.Since = cmp.Or(r.Since, before.Since)
		case known:
			r.Since = cmp.Or(r.Since, now)
		}
		s.since[key], l[i] = r, r
	}
}

// rung is one of one webhook; a webhook that is made anew is another one.
type rung struct {
	kind                webhook.Kind
	configuration, name string
	created             int64
	rung                webhook.Rung
}

// Synced reports whether all that the subscription needs was read, or cannot be.
func (f *Subscription) Synced() bool {
	s := f.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gvr := range f.target.resources() {
		if c := s.configurations[gvr]; c == nil || !c.status().settled() {
			return false
		}
	}
	for key := range s.wantedServices(f.target) {
		if b := s.services[key]; b == nil || !b.synced() {
			return false
		}
	}
	return true
}

// Unreadable says what cannot be read, one text each.
func (s *Survey) Unreadable() []string {
	return s.texts(func(c collection) string { return c.status().unread })
}

// Unlisted says why the webhooks cannot be read that objects of one resource configure,
// and whether the user may not. It returns "" when they can be, before that was tried,
// and while nobody wants them.
func (s *Survey) Unlisted(configurations schema.GroupVersionResource) (why string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.configurations[configurations]
	if c == nil {
		return "", false
	}
	at := c.status()
	return at.unread, at.denied
}

// Polled says what may not be watched and is listed from time to time instead,
// one text each.
func (s *Survey) Polled() []string {
	return s.texts(func(c collection) string {
		if !c.status().polled {
			return ""
		}
		return "may not watch " + c.name() + ": listing them every " + poll.String()
	})
}

// collection is a follower of anything.
type collection interface {
	status() collectionStatus
	name() string
}

// texts returns what say says of all that is followed, sorted, without empty ones.
func (s *Survey) texts(say func(collection) string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := map[string]bool{}
	for _, c := range s.configurations {
		texts[say(c)] = true
	}
	for _, b := range s.services {
		for _, c := range b.collections() {
			texts[say(c)] = true
		}
	}
	delete(texts, "")
	return slices.Sorted(maps.Keys(texts))
}
