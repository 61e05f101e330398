//go:build unix

package tui

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLeavingNeverWaits checks that a display which closes holds up nothing either
// when the terminal does not read.
func TestLeavingNeverWaits(t *testing.T) {
	c, keys, drawn := pair(t)
	left, over, full := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { // ends once the display has left
		defer close(over)
		for b := make([]byte, 1<<10); ; {
			_, err := drawn.Read(b)
			select {
			case <-left:
				return
			default:
				if err != nil {
					return
				}
			}
		}
	}()
	c.Returned = func() {
		fd := int(c.Out.Fd())
		close(left)
		_, err := syscall.Write(fd, []byte(" ")) // wakes the reader
		<-over
		_ = syscall.SetNonblock(fd, true)
		for b := make([]byte, 1<<10); err == nil; { // until there is no room
			_, err = syscall.Write(fd, b)
		}
		_ = syscall.SetNonblock(fd, false)
		close(full)
	}
	d := Open(c)
	_, err := keys.WriteString("q")
	require.NoError(t, err)
	<-full

	event := recorded(t, "failure")[0]
	seen := make(chan struct{})
	go func() { // ends below
		defer close(seen)
		for begun := time.Now(); time.Since(begun) < 200*time.Millisecond; time.Sleep(time.Millisecond) {
			d.Observe(event) // before and while the display says that it is closed
		}
	}()
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		t.Error("the run waits for the terminal")
	}
	all := reader(drawn)
	<-seen
	require.NoError(t, d.Close())
	require.NoError(t, c.Out.Close())
	require.Contains(t, <-all, "the run goes on; ^C stops it\n")
}
