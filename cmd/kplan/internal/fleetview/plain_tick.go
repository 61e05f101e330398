package fleetview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
	since, last time.Time // when the first one was seen to wait, and when any was last
	text        string    // what was told of them; "" before
	at          time.Time // when that was
	cause       string    // that of most of them then
	n           int       // how many they were
}

// news reports whether more is to be told of them than was: they are twice as many, most have
// another cause, or after a minute anything else.
func (w *waiting) news(now time.Time, groups []fleet.Group) bool {
	ago := now.Sub(w.at)
	return members(groups) >= 2*w.n || ago >= 20*time.Second && w.cause != groups[0].Hold.Cause || ago >= time.Minute
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
	p.tellFailures(now, false)
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
	text = words.Join("; ", text, p.idle(w))
	if text == p.status && now.Sub(p.last) < silence {
		return
	}
	p.status = text
	p.line(now, w.Name, "status", "2", text)
}

// idle says why nothing is begun; "" while something is.
func (p *plain) idle(w *fleet.WaveStatus) string {
	switch {
	case p.x.Control.Paused:
		return "paused"
	case w.State == fleet.WaveApproval:
		return "waits for approval"
	case w.State == fleet.WaveSoaking:
		return "soaks until " + w.Until.Local().Format(time.TimeOnly)
	}
	return ""
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
		w.last = now
		text := waits(groups)
		if w.text != text && (w.text == "" && now.Sub(w.since) >= settle || w.text != "" && due && w.news(now, groups)) {
			w.text, w.at, w.cause, w.n = text, now, groups[0].Hold.Cause, members(groups)
			p.line(now, "", "holding", colours[fleet.Holding], text)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(p.holds), func(a, b fleet.Hold) int { return cmp.Compare(a.Webhook+a.Service, b.Webhook+b.Service) }) {
		w := p.holds[key]
		if held[key] || now.Sub(w.last) < settle { // others may begin to wait
			continue
		}
		delete(p.holds, key)
		if w.text != "" {
			p.line(now, "", "released", "32", fmt.Sprintf("no cluster waits for webhook %s any more, after %s", words.Line(key.Webhook), words.Brief(w.last.Sub(w.since))))
		}
	}
}
