//go:build unix

package watchdog

import (
	"os/signal"
	"syscall"
)

// ownGroup keeps ^C and the like, which go to all processes in the foreground, away.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ignoreSignals ignores what asks the whole session to end, for a watchdog ends when
// its parent does, and what stops a process in the background that changes the
// terminal.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
}
