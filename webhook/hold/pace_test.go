package hold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	p := newPace(now)
	require.Equal(t, fastInterval, p.next.Sub(now), "the first try comes soon")

	p.changed(now, unreachable, false)
	p.failed(now, 4*ms)
	require.Equal(t, unreachableInterval, p.next.Sub(now), "nobody can answer: slow")

	p.changed(now, unreachable, true)
	require.Equal(t, now, p.next, "a changed configuration is tried at once, whoever answers")

	p.changed(now, reachable, false)
	require.Equal(t, now, p.next, "an endpoint is ready: at once")

	for _, after := range []struct {
		waited, cost, want time.Duration
		why                string
	}{
		{0, 4 * ms, fastInterval, "just after a change: fast"},
		{0, 1026 * ms, fastInterval, "also after a try that hung"},
		{fastPeriod, 1026 * ms, 50 * ms, "later: slower"},
		{fastPeriod, 20 * ms, 200 * ms, "a tenth of the time goes to tries"},
		{fastPeriod, 2 * ms, 50 * ms, "as the cheapest one takes"},
		{30 * time.Second, 4 * ms, 300 * ms, "late by a hundredth of the time waited"},
		{5 * time.Minute, 4 * ms, time.Second, "but once a second"},
	} {
		p.changed(now, reachable, false)
		then := now.Add(after.waited)
		p.failed(then, 2*hangTime) // such a one says nothing
		p.failed(then, after.cost)
		require.Equal(t, after.want, p.next.Sub(then), after.why)
	}
}
