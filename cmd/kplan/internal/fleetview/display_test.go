package fleetview

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/runner"
)

// pair is what a display works with in place of a terminal: what the user types goes into
// keys, and what is drawn comes out of the channel once out is closed.
func pair(t *testing.T) (c Config, keys *os.File, all <-chan string) {
	t.Helper()
	in, keys, err := os.Pipe()
	require.NoError(t, err)
	drawn, out, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, f := range []*os.File{in, keys, drawn, out} {
			_ = f.Close()
		}
	})
	text := make(chan string, 1)
	go func() { // ends when the other end is closed
		b, _ := io.ReadAll(drawn)
		text <- string(b)
	}()
	return Config{In: in, Out: out, Standby: NewStandby(out, options())}, keys, text
}

// rest is what was written after the display.
func rest(t *testing.T, c Config, all <-chan string) string {
	t.Helper()
	require.NoError(t, c.Out.Close())
	out := <-all
	const leave = "\x1b[?1049l"
	require.Contains(t, out, leave)
	return out[strings.LastIndex(out, leave):]
}

// A display leaves the summary on the terminal, and nothing else.
func TestDisplay(t *testing.T) {
	c, _, all := pair(t)
	d := Open(c)
	for _, e := range recordings()["resumed"] {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	out := rest(t, c, all)
	require.Contains(t, out, "fleet edge succeeded in")
	require.NotContains(t, out, "status")
}

// q closes the display of a run that goes on, which is told of line by line then.
func TestLeaving(t *testing.T) {
	c, keys, all := pair(t)
	d := Open(c)
	events := recordings()["good"]
	for _, e := range events[:20] {
		d.Observe(e)
	}
	_, err := keys.WriteString("q")
	require.NoError(t, err)
	<-d.Gone
	for _, e := range events[20:] {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	out := rest(t, c, all)
	require.Contains(t, out, "the run goes on; ^C stops it\n")
	require.Contains(t, out, "wave rest approved by ada@desk")
}

// Keys give orders and show one cluster's own run, of which new events come in.
func TestDisplayKeys(t *testing.T) {
	inner, err := ledger.ReadEvents("../ui/testdata/events/race.jsonl")
	require.NoError(t, err)
	c, keys, all := pair(t)
	c.Orders = true
	orders, asked := make(chan Order), make(chan string)
	c.Order = func(o Order) error { orders <- o; return errors.New("not now") }
	c.Events = func(cluster string) ([]runner.Event, error) { asked <- cluster; return inner[:5], nil }
	d := Open(c)
	for _, e := range recordings()["good"][:6] {
		d.Observe(e)
	}
	for key, want := range map[string]Order{"p": {Verb: Pause}, "xy": {Verb: Abort}} {
		_, err := keys.WriteString(key)
		require.NoError(t, err)
		require.Equal(t, want, <-orders)
	}
	_, err = keys.WriteString("jj\r")
	require.NoError(t, err)
	require.Equal(t, "prod/east-01", <-asked)
	d.Inner("prod/north-01", inner[0])
	for _, e := range inner[3:] {
		d.Inner("prod/east-01", e)
	}
	require.Eventually(t, func() bool {
		done := make(chan bool)
		d.Send(func() {
			m := d.screen.m.member
			done <- m != nil && m.seq == inner[len(inner)-1].Seq && strings.Contains(m.m.View(), "2 succeeded")
		})
		return <-done
	}, 10*time.Second, 20*time.Millisecond)
	_, err = keys.WriteString("q")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.screen.shown.Load() == nil }, 10*time.Second, 10*time.Millisecond)
	_, err = keys.WriteString("q")
	require.NoError(t, err)
	<-d.Gone
	require.NoError(t, d.Close())
	rest(t, c, all)
}

// A fault of the display gives the terminal back, and lets the run go on in lines.
func TestFault(t *testing.T) {
	c, _, all := pair(t)
	d := Open(c)
	d.Send(func() { panic("a fault on purpose") })
	<-d.Gone
	for _, e := range recordings()["good"] {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	out := rest(t, c, all)
	require.Contains(t, out, "error: the display failed: a fault on purpose\n")
	require.Contains(t, out, "rest           approval   36 clusters wait")
}

// A recorded run is played.
func TestPlayOn(t *testing.T) {
	c, keys, all := pair(t)
	_, err := keys.WriteString("jq")
	require.NoError(t, err)
	require.NoError(t, PlayOn(c, recordings()["good"]))
	require.Contains(t, rest(t, c, all), "fleet edge succeeded in")
}
