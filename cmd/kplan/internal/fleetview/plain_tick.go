package fleetview

import (
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

const (
	// settle is how long clusters wait for a webhook until it is told of.
	settle = 3 * time.Second
	// silence is how long there may be no line at all: some that watch logs take more for
	// a program that hangs.
	silence = 5 * time.Minute
)

// waiting are clusters that wait for one webhook.
type waiting struct {
	since time.Time // when the first one was seen to wait
	text  string    // what was told of them; "" before
}

// pace is how often it is told how far the fleet is: the longer the run, the less often.
func pace(elapsed time.Duration) time.Duration {
	switch {
	case elapsed < 5*time.Minute:
		return 10 * time.Second
	case elapsed < 30*time.Minute:
		return 30 * time.Second
	}
	return time.Minute
}

// Tick implements pump.Drawer: it tells how far the fleet is, when that has changed.
func (p *plain) Tick(now time.Time) {
	if p.x.State != fleet.Running {
		return
	}
	due := now.Sub(p.at) >= pace(now.Sub(p.x.Started))
	p.waitings(now, due)
	if !due {
		return
	}
	p.at = now
	p.tellFailures(now)
	w := p.current()
	if w == nil {
		return
	}
	n := w.Counts()
	text := fmt.Sprintf("%d/%d over", over(n), len(w.Members))
	if len(p.x.Waves) > 1 {
		n = p.x.Counts()
		text += fmt.Sprintf(", %d/%d of the fleet", over(n), len(p.x.Clusters))
	}
	text = words.Join(": ", text, words.Join("; ", CountsText(n, fleet.Pending, fleet.NotStarted), working(p.x.Clusters)))
	if p.x.Control.Paused {
		text += "; paused"
	}
	if text == p.status && now.Sub(p.last) < silence {
		return
	}
	p.status = text
	p.line(now, w.Name, "status", "2", text)
}

// current is the wave that is at work, or waits for something; nil when there is none.
func (p *plain) current() *fleet.WaveStatus {
	for _, w := range p.x.Waves {
		if !w.State.Over() {
			return w
		}
	}
	return nil
}

// waitings tells which webhooks clusters wait for: when some begin to, when others do or
// the cause changes and it is due, and when none does any more.
func (p *plain) waitings(now time.Time, due bool) {
	held := map[fleet.Hold]bool{}
	for _, groups := range holdsByWebhook(&p.x) {
		key := fleet.Hold{Webhook: groups[0].Hold.Webhook, Service: groups[0].Hold.Service}
		held[key] = true
		w := p.holds[key]
		if w == nil {
			w = &waiting{since: now}
			p.holds[key] = w
		}
		text := waits(groups)
		if w.text != text && (w.text == "" && now.Sub(w.since) >= settle || w.text != "" && due) {
			w.text = text
			p.line(now, "", "holding", colours[fleet.Holding], text)
		}
	}
	for key, w := range p.holds {
		if held[key] {
			continue
		}
		delete(p.holds, key)
		if w.text != "" {
			p.line(now, "", "released", "32", fmt.Sprintf("no cluster waits for webhook %s any more, after %s", key.Webhook, words.Brief(now.Sub(w.since))))
		}
	}
}
