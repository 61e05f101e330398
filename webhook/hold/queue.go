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

// waitQueue holds the requests that wait for one webhook, or for several at one
// Service. The gate's mutex guards it.
type waitQueue struct {
	gate *Gate
	key  string
	// The first waiter leads: it is the one that is sent again.
	waiters []*waiter
	pace    *pace
	// inFlight counts those that were released and are not back.
	inFlight int
	// fault is what a try met last. misconfiguredSince is the first of the latest
	// tries if all of them met a misconfiguration. Both hold for the whole queue.
	fault              webhook.Fault
	misconfiguredSince time.Time
	// image is why no pod behind the webhook gets its image, and imageSince since when
	// that is so: what a registry says changes meanwhile. They are empty when one has it.
	image      webhook.ImageFault
	imageSince time.Time
	// subscription is nil without a survey; remove closes it.
	subscription *survey.Subscription
	// statuses are how the webhooks stand as of the latest version; notified is the
	// version that each notifier told of last.
	statuses []survey.Status
	version  int
	notified map[notifier]int
}

// notifier is a transport with requests in the queue for one webhook: it tells once how
// that webhook stands, whichever of its requests learns it.
type notifier struct {
	transport *Transport
	webhook   string
}

// wakeNotifiers wakes one waiter of each notifier that has not told the latest version,
// and the leader, which may be due. The gate's mutex is held.
func (q *waitQueue) wakeNotifiers() {
	woken := map[notifier]bool{}
	for i, w := range q.waiters {
		if i == 0 || !woken[w.notifier] && q.notified[w.notifier] != q.version {
			w.wake()
		}
		woken[w.notifier] = true
	}
}

// record notes what a try met. The gate's mutex is held.
func (q *waitQueue) record(f webhook.Fault) {
	was := q.misconfiguredSince
	q.fault = f
	if f.Class != webhook.Misconfigured {
		q.misconfiguredSince = time.Time{}
	} else if q.misconfiguredSince.IsZero() {
		q.misconfiguredSince = time.Now()
	}
	if q.misconfiguredSince != was { // that changes the bound of every waiter
		for _, w := range q.waiters {
			w.wake()
		}
	}
}

// changed reads how the webhooks stand, and wakes those whom it concerns. The survey
// calls it, from goroutines of its own.
func (q *waitQueue) changed() {
	q.gate.mu.Lock() // join holds it until subscription is set
	subscription := q.subscription
	q.gate.mu.Unlock()
	if !subscription.Synced() {
		return
	}
	statuses := subscription.Statuses()
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	first := q.version == 0
	configuration := !first && !slices.EqualFunc(statuses, q.statuses, func(a, b survey.Status) bool {
		return reflect.DeepEqual(a.Entry, b.Entry)
	})
	if !first && !configuration && fingerprint(statuses) == fingerprint(q.statuses) {
		return
	}
	q.statuses = statuses
	q.version++
	q.see(statusOf(statuses, q.fault).Backing.ImageFault(), time.Now())
	q.pace.changed(time.Now(), reachabilityOf(statusOf(statuses, q.fault).Ladder), configuration)
	q.wakeNotifiers()
}

// see notes why no pod behind the webhook gets its image. The gate's mutex is held.
func (q *waitQueue) see(image webhook.ImageFault, now time.Time) {
	if q.image == image {
		return
	}
	switch {
	case image == "":
		q.imageSince = time.Time{}
	case q.image == "":
		q.imageSince = now
	}
	q.image = image
	for _, w := range q.waiters { // that changes the bound of each
		w.wake()
	}
}

// statusOf returns the status of a fault's webhook, and of several the one that lacks
// most: webhooks of one name all have to answer. It is empty when there is none.
func statusOf(statuses []survey.Status, f webhook.Fault) survey.Status {
	var found survey.Status
	for _, own := range []bool{true, false} {
		for _, st := range statuses {
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

// height returns how many rungs were reached, or passed over because they are unknown.
func height(l webhook.Ladder) int {
	for i, r := range l {
		if r.State == webhook.Waiting || r.State == webhook.Failed {
			return i
		}
	}
	return len(l)
}

// fingerprint returns a text that differs when what can be read of webhooks differs.
// What calls showed is left out: the gate knows that already.
func fingerprint(statuses []survey.Status) string {
	var b strings.Builder
	for _, st := range statuses {
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

// remove ends the queue when nobody waits in it. The gate's mutex is held.
func (q *waitQueue) remove() {
	if q.subscription != nil {
		q.subscription.Close()
	}
	if q.gate.queues[q.key] == q {
		delete(q.gate.queues, q.key)
	}
}
