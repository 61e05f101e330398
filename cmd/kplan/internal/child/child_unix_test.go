//go:build unix

package child

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who ends the whole process group has ended the command too: that gets a signal from
// here only if it goes on.
func TestHandOn(t *testing.T) {
	for _, test := range []struct {
		name  string
		sig   syscall.Signal
		lasts time.Duration // of the command, after the signal
		sent  bool
	}{
		{"ended of SIGTERM", syscall.SIGTERM, grace / 2, false},
		{"ended of SIGHUP", syscall.SIGHUP, grace / 2, false},
		{"goes on after SIGTERM", syscall.SIGTERM, 2 * grace, true},
		{"goes on after SIGHUP", syscall.SIGHUP, 2 * grace, true},
		{"SIGUSR1", syscall.SIGUSR1, grace / 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []os.Signal
				c := &caught{make(chan os.Signal, 1)}
				stop := c.handOn(func(s os.Signal) error {
					got = append(got, s)
					return nil
				})
				c.signals <- test.sig
				time.Sleep(test.lasts)
				stop()
				if !test.sent {
					require.Empty(t, got)
					return
				}
				require.Equal(t, []os.Signal{test.sig}, got)
			})
		})
	}
}

// The ^C that a command died of may arrive after its death, and is not the next one.
func TestEnds(t *testing.T) {
	require.False(t, ends(syscall.SIGINT, 0))
	require.False(t, ends(syscall.SIGQUIT, echo))
	require.True(t, ends(syscall.SIGINT, echo+1))
	require.True(t, ends(syscall.SIGTERM, 0))
	require.False(t, ends(syscall.SIGUSR1, time.Hour))
}
