package hold

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// door is the row of requests that wait for one webhook, or for several at one
// Service. The gate's mutex guards it.
type door struct {
	gate *Gate
	key  string
	// row are those that wait; the first one leads.
	row  []*turn
	pace *pace
	// away is how many were let go and are not back.
	away int
	// fault is what a try met last, bad the start of an unbroken row of
	// misconfigured ones. They hold for all of the row.
	fault webhook.Fault
	bad   time.Time
	// following is nil without a survey; the door ends it.
	following *survey.Following
	// standings are how the webhooks stand as of the latest of version changes, told
	// the version that each teller told of last.
	standings []survey.Standing
	version   int
	told      map[teller]int
}

// teller is a transport that has requests in a row for one webhook: it tells once how
// that stands. Steps have transports of their own, and each wants to know.
type teller struct {
	transport *Transport
	webhook   string
}

// wakeTellers lets one turn of each teller look who has not told the latest version,
// the first turn too, which may be due. The gate's mutex is held.
func (d *door) wakeTellers() {
	woken := map[teller]bool{}
	for i, t := range d.row {
		if i == 0 || !woken[t.teller] && d.told[t.teller] != d.version {
			t.wake()
		}
		woken[t.teller] = true
	}
}

// met takes down what a try met.
func (d *door) met(f webhook.Fault) {
	was := d.bad
	d.fault = f
	if f.Class != webhook.Misconfigured {
		d.bad = time.Time{}
	} else if d.bad.IsZero() {
		d.bad = time.Now()
	}
	if d.bad != was { // the bound of all of them changes
		for _, t := range d.row {
			t.wake()
		}
	}
}

// changed reads how the webhooks stand, and lets the leader look when it is
// due. The survey calls it.
func (d *door) changed() {
	d.gate.mu.Lock() // join holds it while it begins to follow
	following := d.following
	d.gate.mu.Unlock()
	if !following.Synced() {
		return
	}
	standings := following.Standings()
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	first := d.version == 0
	configuration := !first && !slices.EqualFunc(standings, d.standings, func(a, b survey.Standing) bool {
		return reflect.DeepEqual(a.Entry, b.Entry)
	})
	if !first && !configuration && imprint(standings) == imprint(d.standings) {
		return
	}
	d.standings = standings
	d.version++
	d.pace.changed(time.Now(), prospectOf(standingOf(standings, d.fault).Ladder), configuration)
	d.wakeTellers()
}

// standingOf picks the standing of a fault's webhook, and of several the one
// that lacks most: webhooks of one name all have to answer. It is empty when
// there is none.
func standingOf(standings []survey.Standing, f webhook.Fault) survey.Standing {
	var found survey.Standing
	for _, own := range []bool{true, false} {
		for _, st := range standings {
			if own && st.Configuration != "" && !st.Met(f) {
				continue
			}
			if found.Ladder == nil || height(st.Ladder) < height(found.Ladder) {
				found = st
			}
		}
		if found.Ladder != nil {
			return found
		}
	}
	return found
}

// height is how many rungs were reached, or passed over because they are unknown.
func height(l webhook.Ladder) int {
	for i, r := range l {
		if r.State == webhook.Waiting || r.State == webhook.Failed {
			return i
		}
	}
	return len(l)
}

// imprint tells standings apart by what can be read of them; what calls showed
// is no news to a gate.
func imprint(standings []survey.Standing) string {
	var b strings.Builder
	for _, st := range standings {
		for _, r := range st.Ladder {
			if (r.Rung != webhook.Serving && r.Rung != webhook.Admitting) || r.Source.Kind == "Secret" {
				fmt.Fprintln(&b, st.Configuration, st.Name, r.Rung, r.State, r.Reason)
			}
		}
	}
	return b.String()
}

func prospectOf(l webhook.Ladder) prospect {
	if !l.Callable() {
		return hopeless
	}
	for _, r := range l {
		if r.Rung != webhook.Serving && r.Rung != webhook.Admitting && r.State == webhook.Unknown {
			return unknown
		}
	}
	return callable
}

// remove takes the door down when nobody waits at it.
func (d *door) remove() {
	if d.following != nil {
		d.following.Close()
	}
	if d.gate.doors[d.key] == d {
		delete(d.gate.doors, d.key)
	}
}
