package tui

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

// pair is what a display works with in place of a terminal: what the user types
// goes into keys, and what is drawn comes out of drawn.
func pair(t *testing.T) (c Config, keys, drawn *os.File) {
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
	return Config{In: in, Out: out, Standby: ui.NewStandby(out, ui.Options{})}, keys, drawn
}

// reader collects what is drawn.
func reader(drawn *os.File) <-chan string {
	all := make(chan string, 1)
	go func() { // ends when the other end is closed
		b, _ := io.ReadAll(drawn)
		all <- string(b)
	}()
	return all
}

// sequences that a terminal must get at the end if it got the first ones.
var entered = map[string]string{
	"\x1b[?1049h": "\x1b[?1049l", // the other screen
	"\x1b[?25l":   "\x1b[?25h",   // the cursor
	"\x1b[?1002h": "\x1b[?1002l", // the mouse
	"\x1b[?2004h": "\x1b[?2004l", // pastes in brackets
}

func requireRestored(t *testing.T, out string) {
	t.Helper()
	for enter, leave := range entered {
		require.Contains(t, out, enter)
		require.Greater(t, strings.LastIndex(out, leave), strings.LastIndex(out, enter), "%q", leave)
	}
}

// TestDisplay checks that a display gives the terminal back and leaves the summary
// on it, and nothing else.
func TestDisplay(t *testing.T) {
	c, _, drawn := pair(t)
	all := reader(drawn)
	d := Open(c)
	for _, e := range recorded(t, "failure") {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	require.NoError(t, c.Out.Close())
	out := <-all
	requireRestored(t, out)
	rest := out[strings.LastIndex(out, "\x1b[?1049l"):]
	require.Contains(t, rest, "plan failure failed in 33s")
	require.NotContains(t, rest, "still running", "what was drawn is not told again")
}

// TestObserveNeverWaits checks that a terminal that does not read holds up nothing
// but the display.
func TestObserveNeverWaits(t *testing.T) {
	c, _, drawn := pair(t)
	d := Open(c)
	events := many(2000)
	begun := time.Now()
	for _, e := range events {
		d.Observe(e)
	}
	require.Less(t, time.Since(begun), 5*time.Second, "the pipe has no room for the frames of so many events")
	all := reader(drawn)
	require.NoError(t, d.Close())
	require.NoError(t, c.Out.Close())
	requireRestored(t, <-all)
}

// TestLeaving checks that q closes the display of a run that goes on, which is told
// of line by line then, and that nobody waits for orders any more.
func TestLeaving(t *testing.T) {
	c, keys, drawn := pair(t)
	orders := make(chan runner.Order, 1)
	c.Orders, c.Command = true, orders
	all := reader(drawn)
	d := Open(c)
	events := recorded(t, "failure")
	for _, e := range events[:20] {
		d.Observe(e)
	}
	_, err := keys.WriteString("q")
	require.NoError(t, err)
	_, open := <-orders
	require.False(t, open)
	<-d.Gone
	for _, e := range events[20:] {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	require.NoError(t, c.Out.Close())
	out := <-all
	requireRestored(t, out)
	rest := out[strings.LastIndex(out, "\x1b[?1049l"):]
	require.Contains(t, rest, "the run goes on; ^C stops it\n")
	require.Contains(t, rest, "stale        failed     after 32s")
	require.Contains(t, rest, "plan failure failed in 33s")
}

// TestStay checks that a display which stays does so until q, and not when the run
// was stopped.
func TestStay(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		c, keys, drawn := pair(t)
		c.Stay = true
		stop := make(chan struct{})
		c.Stopped = stop
		all := reader(drawn)
		d := Open(c)
		for _, e := range recorded(t, "race") {
			d.Observe(e)
		}
		closed := make(chan error, 1)
		go func() { closed <- d.Close() }()
		<-d.Sent
		select {
		case <-closed:
			t.Fatal("it does not stay")
		default:
		}
		if stopped {
			close(stop)
		} else {
			_, err := keys.WriteString("q")
			require.NoError(t, err)
		}
		require.NoError(t, <-closed)
		require.NoError(t, c.Out.Close())
		out := <-all
		requireRestored(t, out)
		require.Contains(t, out[strings.LastIndex(out, "\x1b[?1049l"):], "plan race succeeded")
	}
}

// TestFault checks that a fault of the display gives the terminal back, says what it
// was, and lets the run go on in lines.
func TestFault(t *testing.T) {
	c, _, drawn := pair(t)
	all := reader(drawn)
	d := Open(c)
	d.Send(func() { panic("a fault on purpose") })
	<-d.Gone
	for _, e := range recorded(t, "race") {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	require.NoError(t, c.Out.Close())
	out := <-all
	requireRestored(t, out)
	rest := out[strings.LastIndex(out, "\x1b[?1049l"):]
	require.Contains(t, rest, "error: the display failed: a fault on purpose\n")
	require.Contains(t, rest, "display_test.go:", "where it was")
	require.Contains(t, rest, "hint: the run goes on")
	require.Contains(t, rest, "race          holding    Gadget/demo/g1")
	require.Contains(t, rest, "plan race succeeded")
}

// TestRelease gives the terminal back in the middle of a run.
func TestRelease(t *testing.T) {
	c, _, drawn := pair(t)
	all := reader(drawn)
	d := Open(c)
	d.Observe(recorded(t, "race")[0])
	d.Release()
	d.Release()
	require.NoError(t, c.Out.Close())
	out := <-all
	requireRestored(t, out)
	require.NotContains(t, out, "failed")
	require.NoError(t, d.Close())
}

// TestPlay plays a recorded run, pauses, goes on faster, and leaves.
func TestPlay(t *testing.T) {
	c, keys, drawn := pair(t)
	c.Speed = 0
	all := reader(drawn)
	_, err := keys.WriteString("2q")
	require.NoError(t, err)
	require.NoError(t, Play(c, recorded(t, "race")))
	require.NoError(t, c.Out.Close())
	requireRestored(t, <-all)
}

// TestNoTerminalIsAsked checks that a display asks the terminal nothing: answers
// could mix with what is typed.
func TestNoTerminalIsAsked(t *testing.T) {
	c, _, drawn := pair(t)
	c.Colour = true
	all := reader(drawn)
	d := Open(c)
	for _, e := range recorded(t, "race") {
		d.Observe(e)
	}
	require.NoError(t, d.Close())
	require.NoError(t, c.Out.Close())
	out := []byte(<-all)
	require.False(t, bytes.Contains(out, []byte("\x1b]")), "no OSC")
	require.False(t, bytes.Contains(out, []byte("\x1b[6n")), "no question for the cursor's position")
}
