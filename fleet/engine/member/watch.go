package member

import (
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// Watch tells how far the plan is on a cluster, by the events of its run. The zero value is
// ready for the first event. It is not safe for concurrent use.
type Watch struct{ x runner.Execution }

// Apply folds one event.
func (w *Watch) Apply(e runner.Event) { w.x.Apply(e) }

// State is holding while a request is held for a webhook, else running.
func (w *Watch) State() fleet.State {
	for _, s := range w.x.Steps() {
		if s.Held() > 0 {
			return fleet.Holding
		}
	}
	return fleet.Running
}

// Progress is how far the plan is.
func (w *Watch) Progress() fleet.Progress {
	p := fleet.Progress{}
	for _, s := range w.x.Steps() {
		p.Total++
		switch {
		case s.State.Good():
			p.Done++
		case p.Step == "" && (s.State.Active() || s.State == runner.StateRetrying):
			p.Step, p.Message = s.Name, cut(s.Message, 200)
		}
	}
	return p
}

// Hold is the webhook that most requests are held for now; nil when none is.
func (w *Watch) Hold() *fleet.Hold {
	var most *fleet.Hold
	byName := map[string]*fleet.Hold{}
	for _, s := range w.x.Steps() {
		if s.Held() == 0 {
			continue
		}
		for _, h := range s.Holds {
			if h.Waiting == 0 {
				continue
			}
			sum := byName[h.Webhook]
			if sum == nil {
				sum = &fleet.Hold{Webhook: h.Webhook, Service: h.Service, Cause: cut(h.Cause, 300)}
				byName[h.Webhook] = sum
			}
			if sum.Requests += h.Waiting; most == nil || sum.Requests > most.Requests {
				most = sum
			}
		}
	}
	return most
}
