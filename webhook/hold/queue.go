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
type waitQueue struct {
	gate *Gate
	key  string
	// row are those that wait; the first one leads.
	waiters []*waiter
	pace    *pace
	// away is how many were let go and are not back.
	inFlight int
	// fault is what a try met last, bad the start of an unbroken row of
	// misconfigured ones. They hold for all of the row.
	fault              webhook.Fault
	misconfiguredSince time.Time
	// following is nil without a survey; the door ends it.
	subscription *survey.Subscription
	// standings are how the webhooks stand as of the latest of version changes, told
	// the version that each teller told of last.
	statuses []survey.Status
	version  int
	notified map[notifier]int
}

// teller is a transport that has requests in a row for one webhook: it tells once how
// that stands. Steps have transports of their own, and each wants to know.
type notifier struct {
	transport *Transport
	webhook   string
}

// wakeTellers lets one turn of each teller look who has not told the latest version,
// the first turn too, which may be due. The gate's mutex is held.
func (d *waitQueue) wakeNotifiers() {
	woken := map[notifier]bool{}
	for i, t := range d.waiters {
		if i == 0 || !woken[t.notifier] && d.notified[t.notifier] != d.version {
			t.wake()
		}
		woken[t.notifier] = true
	}
}

// met takes down what a try met.
func (d *waitQueue) record(f webhook.Fault) {
	was := d.misconfiguredSince
	d.fault = f
	if f.Class != webhook.Misconfigured {
		d.misconfiguredSince = time.Time{}
	} else if d.misconfiguredSince.IsZero() {
		d.misconfiguredSince = time.Now()
	}
	if d.misconfiguredSince != was { // the bound of all of them changes
		for _, t := range d.waiters {
			t.wake()
		}
	}
}

// changed reads how the webhooks stand, and lets the leader look when it is
// due. The survey calls it.
func (d *waitQueue) changed() {
	d.gate.mu.Lock() // join holds it while it begins to follow
	following := d.subscription
	d.gate.mu.Unlock()
	if !following.Synced() {
		return
	}
	standings := following.Statuses()
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	first := d.version == 0
	configuration := !first && !slices.EqualFunc(standings, d.statuses, func(a, b survey.Status) bool {
		return reflect.DeepEqual(a.Entry, b.Entry)
	})
	if !first && !configuration && fingerprint(standings) == fingerprint(d.statuses) {
		return
	}
	d.statuses = standings
	d.version++
	d.pace.changed(time.Now(), reachabilityOf(statusOf(standings, d.fault).Ladder), configuration)
	d.wakeNotifiers()
}

// standingOf picks the standing of a fault's webhook, and of several the one
// that lacks most: webhooks of one name all have to answer. It is empty when
// there is none.
func statusOf(standings []survey.Status, f webhook.Fault) survey.Status {
	var found survey.Status
	for _, own := range []bool{true, false} {
		for _, st := range standings {
			if own && st.Configuration != "" && !st.Matches(f) {
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
func fingerprint(standings []survey.Status) string {
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

func reachabilityOf(l webhook.Ladder) reachability {
	if !l.Callable() {
		return unreachable
	}
	for _, r := range l {
		if r.Rung != webhook.Serving && r.Rung != webhook.Admitting && r.State == webhook.Unknown {
			return unknown
		}
	}
	return reachable
}

// remove takes the door down when nobody waits at it.
func (d *waitQueue) remove() {
	if d.subscription != nil {
		d.subscription.Close()
	}
	if d.gate.queues[d.key] == d {
		delete(d.gate.queues, d.key)
	}
}
