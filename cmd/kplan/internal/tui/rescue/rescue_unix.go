//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package rescue

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

type terminalSettings = unix.Termios

func settings(f *os.File) (*terminalSettings, error) {
	return unix.IoctlGetTermios(int(f.Fd()), getTermios)
}

func restore(f *os.File, s *terminalSettings) error {
	return unix.IoctlSetTermios(int(f.Fd()), setTermios, s)
}

// apart keeps ^C and the like, which go to all processes in the foreground, away.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// heedless takes a name of the process's own, and ignores what asks the whole session to end: the process ends when its
// parent does. It ignores too what stops a process in the background that changes
// the terminal.
func heedless() {
	rename()
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
}
