package webhook

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// reading tells whether somebody could answer for a webhook.
type reading int

const (
	// unknown: the Service is not known, or its endpoints cannot be read.
	unknown reading = iota
	// unbacked: there is no ready endpoint.
	unbacked
	// backed: there is a ready endpoint.
	backed
)

// change is news of what a webhook depends on.
type change struct {
	backed reading
	// configuration says that the webhook's configuration changed or went
	// away, which can let a request pass even when nobody answers.
	configuration bool
}

const (
	// slow is the distance of tries while nobody can answer. Such a try costs
	// the API server up to the webhook's timeoutSeconds, and is made only in
	// case that the readings mislead.
	slow = 2 * time.Second
	// fast is the distance of tries just after a change. Between a ready
	// endpoint and an answer lies little more than kube-proxy's
	// minSyncPeriod (1 s by default, kubernetes/kubernetes
	// pkg/proxy/apis/config/v1alpha1/defaults.go); a try costs some 4 ms.
	fast = 25 * time.Millisecond
	// hurry is how long tries stay fast after a change.
	hurry = 5 * time.Second
)

// pace decides when a leader is sent again.
type pace struct {
	next    time.Time
	since   time.Time // of the last change
	backed  reading
	backoff *backoff.ExponentialBackOff
}

func newPace(now time.Time) *pace {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(2*fast),
		backoff.WithMultiplier(1.5),
		backoff.WithRandomizationFactor(0.1),
		backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(0), // the hold is bounded elsewhere
	)
	return &pace{next: now.Add(fast), since: now, backoff: b}
}

// changed takes news: the next try is due now, unless nobody could answer it.
func (p *pace) changed(now time.Time, c change) {
	p.backed, p.since = c.backed, now
	p.backoff.Reset()
	if c.backed != unbacked || c.configuration {
		p.next = now
	}
}

// failed sets the time of the next try after one that failed.
func (p *pace) failed(now time.Time) {
	switch {
	case p.backed == unbacked:
		p.next = now.Add(slow)
	case now.Sub(p.since) < hurry:
		p.next = now.Add(fast)
	default:
		p.next = now.Add(p.backoff.NextBackOff())
	}
}

// answered makes the next leader wait for those that were let go: they tell
// sooner than a try of its own.
func (p *pace) answered(now time.Time) {
	p.since, p.next = now, now.Add(fast)
	p.backoff.Reset()
}
