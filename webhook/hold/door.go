package hold

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// door is the row of requests that wait for one webhook. The gate's mutex
// guards it.
type door struct {
	gate *Gate
	key  string
	// row are those that wait; the first one leads.
	row  []*turn
	pace *pace
	// following is nil without a survey; the door ends it.
	following *survey.Following
	// standing is how the webhook stands as of the latest of version changes,
	// told the version that a leader told of last.
	standing      survey.Standing
	version, told int
}

// changed reads how the webhook stands, and lets the leader look when it is
// due. The survey calls it.
func (d *door) changed() {
	d.gate.mu.Lock() // join holds it while it begins to follow
	following := d.following
	d.gate.mu.Unlock()
	if !following.Synced() {
		return
	}
	st, ok := worst(following.Standings())
	if !ok {
		return
	}
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	first := d.version == 0
	configuration := !first && !reflect.DeepEqual(st.Entry, d.standing.Entry)
	if !first && !configuration && print(st.Ladder) == print(d.standing.Ladder) {
		return
	}
	d.standing = st
	d.version++
	d.pace.changed(time.Now(), prospectOf(st.Ladder), configuration)
	if len(d.row) > 0 {
		d.row[0].wake()
	}
}

// worst picks the standing that lacks most: webhooks of the same name, or at
// the same Service, all have to answer.
func worst(standings []survey.Standing) (survey.Standing, bool) {
	at := -1
	for i, st := range standings {
		if at < 0 || height(st.Ladder) < height(standings[at].Ladder) {
			at = i
		}
	}
	if at < 0 {
		return survey.Standing{}, false
	}
	return standings[at], true
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

// print tells ladders apart by what can be read of them; what calls showed is
// no news to a gate.
func print(l webhook.Ladder) string {
	var b strings.Builder
	for _, r := range l {
		if (r.Rung != webhook.Serving && r.Rung != webhook.Admitting) || r.Source.Kind == "Secret" {
			fmt.Fprintln(&b, r.Rung, r.State, r.Reason)
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
