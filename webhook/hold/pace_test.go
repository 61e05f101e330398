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
	require.Equal(t, fast, p.next.Sub(now), "the first try comes soon")

	p.changed(now, hopeless, false)
	p.failed(now, 4*ms)
	require.Equal(t, slow, p.next.Sub(now), "nobody can answer: slow")

	p.changed(now, hopeless, true)
	require.Equal(t, now, p.next, "a changed configuration is tried at once, whoever answers")

	p.changed(now, callable, false)
	require.Equal(t, now, p.next, "an endpoint is ready: at once")

	for _, after := range []struct {
		waited, cost, want time.Duration
		why                string
	}{
		{0, 4 * ms, fast, "just after a change: fast"},
		{0, 1026 * ms, fast, "also after a try that hung"},
		{hurry, 1026 * ms, 50 * ms, "later: slower"},
		{hurry, 20 * ms, 200 * ms, "a tenth of the time goes to tries"},
		{hurry, 2 * ms, 50 * ms, "as the cheapest one takes"},
		{30 * time.Second, 4 * ms, 300 * ms, "late by a hundredth of the time waited"},
		{5 * time.Minute, 4 * ms, time.Second, "but once a second"},
	} {
		p.changed(now, callable, false)
		then := now.Add(after.waited)
		p.failed(then, 2*hangs) // such a one says nothing
		p.failed(then, after.cost)
		require.Equal(t, after.want, p.next.Sub(then), after.why)
	}
}
