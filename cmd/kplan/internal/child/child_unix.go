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

// canClean says that a cleaner can do its work on this system.
const canClean = true

// exitOf says how a command ended.
func exitOf(exit *exec.ExitError) *ExitError {
	status, is := exit.Sys().(syscall.WaitStatus)
	if is && status.Signaled() {
		return &ExitError{Code: signalled + int(status.Signal()), Signal: nameOf(status.Signal())}
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
type caught struct{ signals chan os.Signal }

// catch catches what would end this process. What is ignored stays so, for the
// command too, as under nohup or in the background of a script.
func catch() *caught {
	c := &caught{make(chan os.Signal, 16)}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(c.signals, s)
		}
	}
	return c
}

// grace is how long a command has to end by itself of a signal that may have gone to
// the whole process group.
const grace = 100 * time.Millisecond

// handOn hands signals on to a process until stop is called, which is when it ended.
func (c *caught) handOn(send func(os.Signal) error) (stop func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case s := <-c.signals:
				if !pass(s, ended) {
					continue
				}
				_ = send(s) // it may be over
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-over
	}
}

// pass tells whether a signal is to be handed on to a command. It waits for what who
// ends whole groups, as timeout and CI systems do, made of it: a second SIGTERM makes
// many a program leave without its cleanup.
func pass(s os.Signal, ended <-chan struct{}) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT:
		return !inForeground() // else the terminal sent it to both
	case syscall.SIGTERM, syscall.SIGHUP:
		select {
		case <-ended:
			return false
		case <-time.After(grace):
		}
	}
	return true
}

// release lets signals do what they did.
func (c *caught) release() { signal.Stop(c.signals) }

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
