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
	left, full := make(chan struct{}), make(chan struct{})
	go func() { // ends once the display has left, or the other end is closed
		b := make([]byte, 1<<10)
		for {
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
		close(left)
		var err error
		fd := int(c.Out.Fd())
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

	seen := make(chan struct{})
	go func() { // ends below
		defer close(seen)
		d.Observe(recorded(t, "failure")[0])
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
