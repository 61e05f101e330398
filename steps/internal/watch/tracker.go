package watch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

const (
	// recovery is how long a recoverable failure that was there before is endured.
	recovery = 30 * time.Second
	// mostNamed is how many objects an error names.
	mostNamed = 5
	// pause is how long after an object became ready it is told what else is waited
	// for: objects become ready in rows.
	pause = time.Second
)

// tracker is what is known of all targets. Until's goroutine alone uses it.
type tracker struct {
	wait    Wait
	entries []*entry
	groups  map[listing]*group
	stalls  *stalls     // nil when what stalls is waited for
	next    *time.Timer // fires when all is to be judged again; nil without need
	nextAt  time.Time   // is when next fires
	again   *time.Timer // fires when what is still waited for has to be told; nil without need
}

// entry is what is known of one target.
type entry struct {
	target    Target
	group     *group
	reading   Reading
	judged    bool
	recovered time.Time // until then a recoverable failure is endured
	since     time.Time // since then a state has been reached that must last
	// stalled is since when objects of the target stall.
	stalled map[stalled]time.Time
}

// group is the objects of one listing.
type group struct {
	namespace string
	objects   map[string]*unstructured.Unstructured // by name
	meant     map[types.UID]bool                    // the objects of the first look, for deletions
	looked    map[string]bool                       // the names that were looked at; "" when all were
	trouble   string                                // why the objects cannot be read at present
	entries   []*entry
}

func newTracker(s *cluster.Session, w Wait) *tracker {
	b := &tracker{wait: w, groups: map[listing]*group{}}
	if s.FailFast && !w.Patient && !w.Deletion {
		b.stalls = newStalls(s, w)
	}
	for _, t := range w.Targets {
		f := t.listing(s)
		g := b.groups[f]
		if g == nil {
			g = &group{namespace: f.namespace, objects: map[string]*unstructured.Unstructured{}, meant: map[types.UID]bool{}, looked: map[string]bool{}}
			b.groups[f] = g
		}
		e := &entry{target: t, group: g, reading: waiting("not looked at yet")}
		g.entries = append(g.entries, e)
		b.entries = append(b.entries, e)
	}
	return b
}

// listings are the names to look for, by listing; none for a selector.
func (b *tracker) listings() map[listing][]string {
	out := map[listing][]string{}
	for f, g := range b.groups {
		out[f] = namesOf(f, g.entries)
	}
	return out
}

// pendingListings are those of listings with a target that is not ready, and only these names.
func (b *tracker) pendingListings() map[listing][]string {
	out := map[listing][]string{}
	for f, g := range b.groups {
		if open := pending(g.entries); len(open) > 0 {
			out[f] = namesOf(f, open)
		}
	}
	return out
}

func namesOf(f listing, entries []*entry) []string {
	if f.selector != "" {
		return nil
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(names, e.target.Name) {
			names = append(names, e.target.Name)
		}
	}
	return names
}

// take learns an update and judges what it touches.
func (b *tracker) take(u update) {
	if u.listing.beside {
		b.stalls.take(u)
		b.judgeAgain(settling)
		return
	}
	g := b.groups[u.listing]
	if u.trouble != "" {
		g.trouble = u.trouble
		for _, e := range g.entries {
			if !e.judged || e.reading.State == Waiting {
				b.set(e, waiting(u.trouble))
			}
		}
		return
	}
	g.trouble = ""
	touched := ""
	switch {
	case u.object == nil: // a look at everything, or at the names that it is about
		maps.DeleteFunc(g.objects, func(name string, _ *unstructured.Unstructured) bool { return u.covers(name) })
		for _, o := range u.list {
			g.objects[o.GetName()] = o
		}
	case u.deleted:
		delete(g.objects, u.object.GetName())
		touched = u.object.GetName()
	default:
		g.objects[u.object.GetName()] = u.object
		touched = u.object.GetName()
	}
	if b.wait.Deletion {
		g.forgetNewcomers(u)
	}
	for _, e := range g.entries {
		if (touched == "" || e.target.Name == "" || e.target.Name == touched) && u.covers(e.target.Name) {
			b.judge(e)
		}
	}
}

// forgetNewcomers leaves out what was not there at the first look.
func (g *group) forgetNewcomers(u update) {
	look := u.object == nil
	for name, o := range g.objects {
		first := look && !g.looked[""] && !g.looked[name] && u.covers(name)
		switch {
		case g.meant[o.GetUID()]:
		case first:
			g.meant[o.GetUID()] = true
		default:
			delete(g.objects, name)
		}
	}
	switch {
	case !look:
	case u.names == nil:
		g.looked[""] = true
	default:
		for _, name := range u.names {
			g.looked[name] = true
		}
	}
}

func (b *tracker) judgeAll() {
	b.next = nil
	for _, e := range b.entries {
		if e.judged && e.group.trouble == "" && e.reading.State != Reached {
			b.judge(e)
		}
	}
}

func (b *tracker) judge(e *entry) {
	var r Reading
	if e.target.Name != "" {
		o := e.group.objects[e.target.Name]
		r = b.wait.Judge(e.target, o)
		if o == nil && e.judged && e.reading.State == Reached {
			return // it was ready, and is gone
		}
		if r.State == Waiting && o != nil {
			r = b.endured(e, r, o)
		}
	} else {
		r = b.judgeAllOf(e)
	}
	now := time.Now()
	r = b.lasting(e, r, now)
	switch {
	case r.State != Failed || !r.Recoverable:
		e.recovered = time.Time{}
	case !e.judged, r.unsettled && e.recovered.IsZero():
		e.recovered = now.Add(recovery)
	}
	if r.State == Failed && now.Before(e.recovered) {
		r.State = Waiting
		b.judgeAgain(e.recovered.Sub(now))
	}
	e.judged = true
	b.set(e, r)
}

// lasting is a reading as it counts: one that must last changes nothing until it has.
func (b *tracker) lasting(e *entry, r Reading, now time.Time) Reading {
	need := r.Lasting
	r.Lasting = 0
	switch {
	case r.State != Reached || need == 0:
		e.since = time.Time{}
		return r
	case e.since.IsZero():
		e.since = now
	}
	left := need - now.Sub(e.since)
	switch {
	case left <= 0:
		return r
	case e.judged:
		r = e.reading
	default:
		r.State = Waiting
	}
	b.judgeAgain(left)
	return r
}

// judgeAgain sees to it that all is judged again, after this time at the latest.
func (b *tracker) judgeAgain(after time.Duration) {
	if at := time.Now().Add(after); b.next == nil || at.Before(b.nextAt) {
		b.next, b.nextAt = time.NewTimer(after), at
	}
}

// judgeAllOf is the reading of a selector: the worst of its objects' readings.
func (b *tracker) judgeAllOf(e *entry) Reading {
	objects := e.group.objects
	if len(objects) == 0 {
		return b.wait.Judge(e.target, nil)
	}
	names := slices.Sorted(maps.Keys(objects))
	rank := map[ReadingState]int{Reached: 0, Waiting: 1, Failed: 2}
	var worst Reading
	ready := 0
	for i, name := range names {
		r := b.wait.Judge(e.target, objects[name])
		if r.State == Waiting {
			r = b.endured(e, r, objects[name])
		}
		if r.State == Reached {
			ready++
		} else {
			r.Reason = name + ": " + r.Reason
		}
		if i == 0 || rank[r.State] > rank[worst.State] {
			worst = r
		}
	}
	if worst.State == Waiting && len(names) > 1 {
		worst.Reason = fmt.Sprintf("%d of %d; %s", ready, len(names), worst.Reason)
	}
	return worst
}

func (b *tracker) set(e *entry, r Reading) {
	r.Reason = clean.Line(r.Reason)
	if e.reading == r {
		return
	}
	e.reading = r
	if b.wait.Changed == nil {
		return
	}
	open := pending(b.entries)
	b.again = nil
	if r.State == Reached && len(open) > 0 {
		b.again = time.NewTimer(pause)
	}
	b.tell(e, len(open))
}

func (b *tracker) tell(e *entry, open int) {
	b.wait.Changed(Change{Target: e.target, Reading: e.reading, Ready: len(b.entries) - open, Total: len(b.entries)})
}

// reminder fires when what was told last has become ready and others have not; it
// never does while there is nothing to be told.
func (b *tracker) reminder() <-chan time.Time {
	if b.again == nil {
		return nil
	}
	return b.again.C
}

// remind tells again what is still waited for: people take what was told last for that.
func (b *tracker) remind() {
	b.again = nil
	if open := pending(b.entries); len(open) > 0 {
		b.tell(open[0], len(open))
	}
}

// due fires when all has to be judged again; it never does without need.
func (b *tracker) due() <-chan time.Time {
	if b.next == nil {
		return nil
	}
	return b.next.C
}

// verdict reports whether the wait is over, and how.
func (b *tracker) verdict() (bool, error) {
	var (
		errs   []error
		failed *FailedError // the last one
	)
	for _, e := range b.entries {
		if e.reading.State == Failed {
			failed = &FailedError{Target: e.target, Reason: e.reading.Reason, Stalled: e.reading.stalled}
			errs = append(errs, failed)
		}
	}
	switch {
	case len(errs) == 1:
		return true, failed
	case len(errs) > 1:
		return true, errors.Join(errs...)
	}
	return len(pending(b.entries)) == 0, nil
}

// pending are the targets that are not ready, in the caller's order.
func pending(entries []*entry) []*entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return e.reading.State == Reached })
}

func (b *tracker) waitsFor() string {
	if b.wait.For != "" {
		return b.wait.For
	}
	if len(b.entries) == 1 {
		return b.entries[0].target.String() + " to be ready"
	}
	return fmt.Sprintf("%d objects to be ready", len(b.entries))
}

func (b *tracker) pendingText() string {
	var parts []string
	open := pending(b.entries)
	for _, e := range open[:min(len(open), mostNamed)] {
		parts = append(parts, e.target.String()+": "+cmp.Or(e.reading.Reason, string(e.reading.State)))
	}
	if more := len(open) - mostNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
