package survey

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kplan-dev/kplan/webhook"
)

// Standings reads how the followed webhooks stand now, in the order of their
// configurations' names. For a fault of a webhook that is not configured, or
// whose configuration cannot be read, there is one with what the fault tells.
func (f *Following) Standings() []Standing {
	s := f.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var standings []Standing
	for _, e := range s.entries() {
		if f.target.wants(e) {
			standings = append(standings, s.standing(e, now))
		}
	}
	if len(standings) == 0 && f.target.Fault != nil {
		standings = append(standings, s.unconfigured(*f.target.Fault, now))
	}
	return standings
}

// standing reads how one webhook stands. The mutex is held.
func (s *Survey) standing(e webhook.Entry, now time.Time) Standing {
	st := Standing{Entry: e}
	if b := s.backings[e.Service()]; b != nil {
		st.Backing = b.read()
	}
	st.Ladder = webhook.Climb(&e, st.Backing, s.call(e), now)
	s.date(e, st.Ladder, now)
	return st
}

// unconfigured makes a standing of what a fault tells of its webhook.
func (s *Survey) unconfigured(f webhook.Fault, now time.Time) Standing {
	e := webhook.Entry{Kind: f.Kind, Name: f.Webhook}
	if f.Service != "" {
		e.Client.Service = &admissionv1.ServiceReference{Namespace: f.Namespace, Name: f.Service}
	}
	st := Standing{Entry: e}
	for _, p := range s.configurations {
		if x := p.seen(); x.unread != "" || !x.synced {
			if b := s.backings[f.ServiceKey()]; b != nil {
				st.Backing = b.read()
			}
			st.Ladder = webhook.Climb(&e, st.Backing, webhook.Call{}, now)
			why := x.unread
			if why == "" {
				why = "not read yet"
			}
			st.Ladder[0] = webhook.Reading{Rung: webhook.Configured, State: webhook.Unknown, Reason: why}
			st.Ladder[1] = webhook.Reading{Rung: webhook.Trusted, State: webhook.Unknown, Reason: why}
			return st
		}
	}
	st.Ladder = webhook.Climb(nil, nil, webhook.Call{}, now)
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

// date fills in since when a rung stands as it does, where no object tells.
func (s *Survey) date(e webhook.Entry, l webhook.Ladder, now time.Time) {
	for i, r := range l {
		key := string(e.Kind) + " " + e.Configuration + " " + e.Name + " " + string(r.Rung)
		if before, known := s.since[key]; known && before.State == r.State {
			r.Since = before.Since
		} else if r.Since.IsZero() {
			r.Since = now
		}
		l[i].Since = r.Since
		s.since[key] = r
	}
}
