package hold

import "time"

// reachability says whether anything could answer for a webhook.
type reachability int

const (
	// unknown: what stands behind the webhook cannot be read.
	unknown reachability = iota
	// unreachable: a rung below an answer is missing, a ready endpoint for example.
	unreachable
	// reachable: every rung that can be read was reached.
	reachable
)

const (
	// unreachableInterval is the time between tries while nobody can answer. Such a try
	// costs the API server up to the webhook's timeoutSeconds, and is made only in case
	// that the readings mislead.
	unreachableInterval = 2 * time.Second
	// fastInterval is the time between tries just after a change. Between a ready
	// endpoint and an answer lies little more than kube-proxy's
	// minSyncPeriod (1 s by default, kubernetes/kubernetes
	// pkg/proxy/apis/config/v1alpha1/defaults.go); a try costs some 4 ms.
	fastInterval = 25 * time.Millisecond
	// fastPeriod is how long tries stay fast after a change.
	fastPeriod = 2 * time.Second
	// costShare and waitShare bound the interval after that: a tenth of the time goes to
	// tries, and a webhook that took long is met late by at most a hundredth of that.
	costShare = 10
	waitShare = 100
	// maxInterval is the longest time between tries while somebody could answer.
	maxInterval = time.Second
)

// pace decides when a leader is sent again.
type pace struct {
	next         time.Time
	since        time.Time // of the last change
	reachability reachability
	// cost is that of the cheapest try since the last change, 0 when there was
	// none. One that hangs says nothing of what the next one takes.
	cost time.Duration
}

func newPace(now time.Time) *pace {
	return &pace{next: now.Add(fastInterval), since: now}
}

// changed notes a change: the next try is due now, unless nobody could answer it.
// A configuration that changed can let a request pass all the same.
func (p *pace) changed(now time.Time, to reachability, configuration bool) {
	p.reachability, p.since, p.cost = to, now, 0
	if to != unreachable || configuration {
		p.next = now
	}
}

// failed sets the time of the next try after one that failed and took cost.
func (p *pace) failed(now time.Time, cost time.Duration) {
	waited := now.Sub(p.since)
	if cost < hangTime && (p.cost == 0 || cost < p.cost) {
		p.cost = cost
	}
	switch {
	case p.reachability == unreachable:
		p.next = now.Add(unreachableInterval)
	case waited < fastPeriod:
		p.next = now.Add(fastInterval)
	default:
		p.next = now.Add(min(max(2*fastInterval, costShare*p.cost, waited/waitShare), maxInterval))
	}
}

// answered makes the next leader wait for those that were released: they tell sooner
// than a try of its own.
func (p *pace) answered(now time.Time) {
	p.since, p.next = now, now.Add(fastInterval)
}
