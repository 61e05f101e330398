package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Race is how long a webhook of a cluster could not judge requests of a run, and what
// that would have cost without the hold.
type Race struct {
	// Cluster is the plan's name of the cluster; "" when it names none.
	Cluster string
	// Webhook is the webhook's name, or APIServer, and Service the Service that is called.
	Webhook, Service string
	// Cause is why the first request got no answer.
	Cause string
	// Requests counts those that were held, and Failed those that were given up.
	Requests, Failed int
	// From is when the first was held. Admitted is when the first was answered, and Stable
	// when the last one was: both are zero when none was.
	From, Admitted, Stable time.Time
	// Longest is the longest time that one was held.
	Longest time.Duration
	// Delay is retry_delay_seconds of the step that met the webhook first, and Saved is how
	// much later a retry after such delays would have found it to answer, what the attempts
	// themselves take not counted.
	Delay, Saved time.Duration
	// HoldTimeout is the hold_timeout that suits a webhook which answered: a round time of at
	// least three times Longest. 0 is for others.
	HoldTimeout time.Duration
}

// Down is how long the webhook could not answer, up to its first answer.
func (r Race) Down() time.Duration {
	if r.Admitted.IsZero() {
		return r.Longest
	}
	return r.Admitted.Sub(r.From)
}

// MarshalJSON returns the race with times in seconds.
func (r Race) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Cluster     string    `json:"cluster,omitempty"`
		Webhook     string    `json:"webhook"`
		Service     string    `json:"service,omitempty"`
		Cause       string    `json:"cause,omitempty"`
		Requests    int       `json:"requests"`
		Failed      int       `json:"failed,omitempty"`
		From        time.Time `json:"from"`
		Admitted    time.Time `json:"admitted,omitzero"`
		Stable      time.Time `json:"stable,omitzero"`
		Down        float64   `json:"down_seconds"`
		Longest     float64   `json:"longest_seconds"`
		Saved       float64   `json:"saved_seconds,omitempty"`
		HoldTimeout string    `json:"suggested_hold_timeout,omitempty"`
	}{
		r.Cluster, r.Webhook, r.Service, r.Cause, r.Requests, r.Failed, r.From, r.Admitted, r.Stable,
		r.Down().Seconds(), r.Longest.Seconds(), r.Saved.Seconds(), r.Suits(),
	})
}

// Races are those of the run so far, in the order in which webhooks held first.
func (x *Execution) Races() []Race {
	races := []Race{}
	for _, s := range x.steps {
		for _, h := range s.HoldsAt(x.last) {
			i := slices.IndexFunc(races, func(r Race) bool { return r.Cluster == s.Cluster && r.Webhook == h.Webhook && r.Service == h.Service })
			if i < 0 {
				i = len(races)
				races = append(races, Race{Cluster: s.Cluster, Webhook: h.Webhook, Service: h.Service})
			}
			races[i].add(s, h)
		}
	}
	slices.SortStableFunc(races, func(a, b Race) int { return a.From.Compare(b.From) })
	for i := range races {
		races[i].conclude()
	}
	return races
}

// add counts what one step met.
func (r *Race) add(s *Step, h *Hold) {
	r.Requests += h.Requests
	r.Failed += h.Failed
	r.Longest = max(r.Longest, h.Longest)
	if r.From.IsZero() || h.From.Before(r.From) {
		r.From, r.Cause, r.Delay = h.From, h.FirstCause, seconds(s.RetryDelaySeconds)
	}
	if r.Admitted.IsZero() || !h.Admitted.IsZero() && h.Admitted.Before(r.Admitted) {
		r.Admitted = h.Admitted
	}
	if h.Stable.After(r.Stable) {
		r.Stable = h.Stable
	}
}

// rounds are the times that people write.
var rounds = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour,
}

// conclude finds what follows from what was counted.
func (r *Race) conclude() {
	if r.Admitted.IsZero() {
		return
	}
	if down := r.Down(); r.Delay > 0 {
		r.Saved = (down+r.Delay-1)/r.Delay*r.Delay - down
	}
	if i := slices.IndexFunc(rounds, func(d time.Duration) bool { return d >= 3*r.Longest }); i >= 0 {
		r.HoldTimeout = rounds[i]
	} else {
		r.HoldTimeout = (3*r.Longest + time.Hour - 1).Truncate(time.Hour)
	}
}

// Suits is HoldTimeout as plans have it; "" for none.
func (r Race) Suits() string {
	d := r.HoldTimeout
	switch {
	case d == 0:
		return ""
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
