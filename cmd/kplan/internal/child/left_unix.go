//go:build unix

package child

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// courtesy is how long processes that were told to end have for it: for a tool
	// that has to write down how far it came, such as Helm or Terraform.
	courtesy = 30 * time.Second
	// lost is how long it is waited for those that were killed: what cannot be killed
	// waits for a disk.
	lost = 2 * time.Second
	// echo is how long after a command died of ^C that ^C may still arrive here.
	echo = 500 * time.Millisecond
	// patience is how long it is waited for others without a word.
	patience = time.Second
)

// endLeft ends what a command had started that died of a signal. ^C reached that too,
// and it may clean up: it is waited for, and told to end by the next signal only.
func (c *caught) endLeft(by *ExitError, folder string, waits func(pids []int)) {
	signal := syscall.Signal(by.Code - signalled)
	if (signal == syscall.SIGINT || signal == syscall.SIGQUIT) && !c.outlast(folder, waits) {
		return
	}
	endAll(0, folder)
}

// outlast waits until there is no process any more that has a folder's path, and calls
// waits if that takes long. It returns early, with true, at a signal.
func (c *caught) outlast(folder string, waits func(pids []int)) (stopped bool) {
	began, told := time.Now(), false
	for {
		left, since := having(folder), time.Since(began)
		if len(left) == 0 {
			return false
		}
		if !told && since > patience && waits != nil {
			told = true
			waits(left)
		}
		select {
		case s := <-c.signals:
			if ends(s, time.Since(began)) {
				return true
			}
		case <-time.After(pause(since)):
		}
	}
}

// ends tells whether a signal, so long after a command was interrupted, is to end what
// the command left.
func ends(s os.Signal, since time.Duration) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT:
		return since > echo
	case syscall.SIGTERM, syscall.SIGHUP:
		return true
	}
	return false
}

// pause is how long to wait before looking at all processes again.
func pause(since time.Duration) time.Duration {
	return min(max(since/4, 20*time.Millisecond), 500*time.Millisecond)
}

// endAll ends a process, and all whose environment has the path of a folder: first
// kindly, then not. It returns when there are none any more.
func endAll(pid int, folder string) {
	kind := unix.SIGTERM
	told := map[int]bool{}
	for began := time.Now(); ; time.Sleep(pause(time.Since(began))) {
		if kind == unix.SIGTERM && time.Since(began) > courtesy {
			kind = unix.SIGKILL
		}
		left := having(folder)
		if pid != 0 && unix.Kill(pid, 0) == nil {
			left = append(left, pid)
		}
		if len(left) == 0 || time.Since(began) > courtesy+lost {
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
