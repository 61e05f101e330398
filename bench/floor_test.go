package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// verdict is what one dry-run met.
type verdict int

const (
	// other: anything that says nothing about the webhook, e.g. that the kind is
	// not served yet.
	other verdict = iota
	// refused: the API server could not call the webhook.
	refused
	// admitted: the object would have been created.
	admitted
)

// answer is one dry-run's.
type answer struct {
	sent, arrived time.Time
	verdict       verdict
	text          string // of the response, for errors
}

// floor finds the moment at which a webhook begins to answer, from answers in
// any order.
//
// Before the webhook configuration exists dry-runs pass, or fail for want of
// the kind. So a pass counts only when it was sent after a refusal had arrived:
// then the API server knew the webhook when it judged it.
type floor struct {
	// closed is when the first refusal arrived.
	closed time.Time
	// refused is when the last refusal before the floor arrived.
	refused time.Time
	// at is when the first pass that counts arrived; zero until there is one.
	at time.Time
	// answers are all, in the order of their arrival or nearly so.
	answers []answer
}

func (f *floor) take(a answer) {
	f.answers = append(f.answers, a)
	switch {
	case a.verdict == refused:
		if f.closed.IsZero() {
			f.closed = a.arrived
		}
		if f.at.IsZero() && a.arrived.After(f.refused) {
			f.refused = a.arrived
		}
	case a.verdict == admitted && !f.closed.IsZero() && a.sent.After(f.closed):
		if f.at.IsZero() || a.arrived.Before(f.at) {
			f.at = a.arrived
		}
	}
}

func TestFloor(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	tests := []struct {
		name    string
		answers []answer
		floor   int // 0: none
	}{
		{"a pass before any refusal does not count", []answer{
			{sent: at(0), arrived: at(5), verdict: admitted},
		}, 0},
		{"nor does a kind that is not served", []answer{
			{sent: at(0), arrived: at(5), verdict: other},
			{sent: at(10), arrived: at(15), verdict: admitted},
		}, 0},
		{"nor one that was on its way when the configuration came", []answer{
			{sent: at(10), arrived: at(14), verdict: refused},
			{sent: at(9), arrived: at(15), verdict: admitted},
		}, 0},
		{"the first pass after a refusal", []answer{
			{sent: at(0), arrived: at(5), verdict: admitted},
			{sent: at(10), arrived: at(15), verdict: refused},
			{sent: at(20), arrived: at(25), verdict: refused},
			{sent: at(30), arrived: at(36), verdict: admitted},
			{sent: at(40), arrived: at(45), verdict: admitted},
		}, 36},
		{"answers overtake each other", []answer{
			{sent: at(10), arrived: at(15), verdict: refused},
			{sent: at(30), arrived: at(50), verdict: admitted},
			{sent: at(40), arrived: at(45), verdict: admitted},
		}, 45},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var f floor
			for _, a := range test.answers {
				f.take(a)
			}
			if test.floor == 0 {
				require.Zero(t, f.at)
				return
			}
			require.Equal(t, at(test.floor), f.at)
		})
	}
}
