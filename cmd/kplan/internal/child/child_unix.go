//go:build unix

package child

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guarded says that a guard can do its work on this system.
const guarded = true

// exitOf says how a command ended.
func exitOf(exit *exec.ExitError) *ExitError {
	status, is := exit.Sys().(syscall.WaitStatus)
	if is && status.Signaled() {
		return &ExitError{Code: 128 + int(status.Signal()), Signal: nameOf(status.Signal())}
	}
	return &ExitError{Code: exit.ExitCode()}
}

func nameOf(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// caught are the signals to this process.
type caught struct {
	signals chan os.Signal
	over    chan struct{}
}

// catch catches what would end this process. What is ignored stays so, for the
// command too, as under nohup or in the background of a script.
func catch() *caught {
	c := &caught{make(chan os.Signal, 16), make(chan struct{})}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(c.signals, s)
		}
	}
	return c
}

// handOn hands signals on to a process until release.
func (c *caught) handOn(p *os.Process) {
	go func() {
		for {
			select {
			case s := <-c.signals:
				if fromTerminal := s == syscall.SIGINT || s == syscall.SIGQUIT; fromTerminal && inForeground() {
					continue // the terminal sent it to both
				}
				_ = p.Signal(s) // it may be over
			case <-c.over:
				return
			}
		}
	}()
}

// release lets signals do what they did.
func (c *caught) release() {
	signal.Stop(c.signals)
	close(c.over)
}

// inForeground tells whether the keys of a terminal send signals to this process.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// apart keeps ^C and the like, which go to all processes in the foreground, away.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// heedless ignores what asks the whole session to end: the guard ends when its parent
// does.
func heedless() {
	rename()
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

const (
	// courtesy is how long processes have to end by themselves.
	courtesy = 2 * time.Second
	// look is how often it is looked whether they did.
	look = 20 * time.Millisecond
)

// endAll ends a process, and all whose environment has the path of a folder: first
// kindly, then not. It returns when there are none any more.
func endAll(pid int, folder string) {
	kind := unix.SIGTERM
	told := map[int]bool{}
	for began := time.Now(); ; time.Sleep(look) {
		if kind == unix.SIGTERM && time.Since(began) > courtesy {
			kind = unix.SIGKILL
		}
		left := having(folder)
		if pid != 0 && unix.Kill(pid, 0) == nil {
			left = append(left, pid)
		}
		if len(left) == 0 || time.Since(began) > 2*courtesy { // what cannot be killed waits for a disk
			return
		}
		for _, p := range left {
			if kind == unix.SIGKILL || !told[p] {
				told[p] = true
				_ = unix.Kill(p, kind) // it may be over
			}
		}
	}
}
