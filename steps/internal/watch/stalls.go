package watch

import (
	"cmp"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/stall"
)

const (
	// patience is how long a wait goes on before it is looked at why: most things
	// come sooner, and cost no more requests then.
	patience = 5 * time.Second
	// settling is how long after a change beside the targets these are judged: pods
	// change in rows.
	settling = 200 * time.Millisecond
)

// stalls is what is known of why targets do not get on, by namespace.
type stalls struct {
	views    map[string]*stall.View
	limits   stall.Limits
	restarts *stall.Restarts
	began    time.Time
}

func newStalls(s *cluster.Session, w Wait) *stalls {
	all := &stalls{views: map[string]*stall.View{}, limits: stall.Default, restarts: s.Cluster.Restarts, began: time.Now()}
	if w.Limits != nil {
		all.limits = *w.Limits
	}
	return all
}

// suspecting ticks when suspects has to be asked. The caller stops it.
func (b *tracker) suspecting() *time.Ticker {
	t := time.NewTicker(cmp.Or(b.wait.Patience, patience))
	if b.stalls == nil {
		t.Stop()
	}
	return t
}

// suspects are what is to be followed beside the targets from now on: pods, claims
// and warnings of the namespaces with a target that is not ready and may stall.
func (b *tracker) suspects() []listing {
	var more []listing
	for f, g := range b.groups {
		if b.stalls.views[f.namespace] != nil || !g.mayStall() {
			continue
		}
		b.stalls.views[f.namespace] = &stall.View{Limits: b.stalls.limits, Restarts: b.stalls.restarts, Began: b.stalls.began}
		for _, kind := range stall.Kinds {
			beside := listing{kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, namespace: f.namespace, beside: true}
			if kind == "Event" {
				beside.fields = "type=Warning"
			}
			more = append(more, beside)
		}
	}
	return more
}

func (g *group) mayStall() bool {
	for _, e := range pending(g.entries) {
		for name, o := range g.objects {
			if (e.target.Name == "" || e.target.Name == name) && stall.Concerns(o) {
				return true
			}
		}
	}
	return false
}

// take learns what is beside the targets.
func (s *stalls) take(u update) {
	view := s.views[u.listing.namespace]
	if u.object == nil {
		view.Replace(u.listing.kind.Kind, u.list)
		return
	}
	view.Take(u.object, u.deleted)
}

// endured is the reading of an object that is not ready: it has failed when it has
// stalled for longer than the grace.
func (b *tracker) endured(e *entry, r Reading, o *unstructured.Unstructured) Reading {
	if b.stalls == nil || !stall.Concerns(o) || o.GetDeletionTimestamp() != nil {
		return r
	}
	view := b.stalls.views[e.group.namespace]
	if view == nil {
		return r
	}
	now := time.Now()
	found := map[stalled]bool{}
	for _, s := range view.Of(o) {
		key := stalled{o.GetName(), family(s.Class)}
		found[key] = true
		if e.stalled == nil {
			e.stalled = map[stalled]time.Time{}
		}
		if _, known := e.stalled[key]; !known {
			e.stalled[key] = now
		}
		lasted := now.Sub(e.stalled[key])
		grace, limited := b.stalls.limits.Grace[s.Class]
		switch {
		case s.Open, !limited:
		case lasted >= grace:
			return Reading{State: Failed, Reason: s.After(lasted), stalled: true}
		default:
			b.judgeAgain(grace - lasted)
		}
	}
	maps.DeleteFunc(e.stalled, func(s stalled, _ time.Time) bool {
		return s.object == o.GetName() && !found[s] && s.class != stall.Crash && s.class != stall.Start // one that crashes runs now and then
	})
	return r
}

// stalled is an object that stalls, and how.
type stalled struct {
	object string
	class  stall.Class
}

// family is the class whose time runs: what a registry says and the pause after it, which older
// kubelets explain less, come by turns.
func family(c stall.Class) stall.Class {
	if c == stall.Image {
		return stall.Pull
	}
	return c
}
