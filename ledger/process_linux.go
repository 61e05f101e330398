package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// world names the set of process numbers that this process sees: a boot of a
// machine, and a PID namespace in it. Containers of one host have several.
var world = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + "/" + namespace
})

// processID tells a process from all others, also from one that gets its number
// later; it is "" when the system does not say.
func processID(pid int) string {
	started, err := startTime(pid)
	if world() == "" || err != nil {
		return ""
	}
	return world() + "/" + started
}

// processEnded reports whether a process of this machine is known to be gone.
func processEnded(id string, pid int) bool {
	here := world()
	if here == "" || !strings.HasPrefix(id, here+"/") {
		return false
	}
	started, err := startTime(pid)
	if os.IsNotExist(err) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return true // it waits for its parent to look
		}
		// With the mount option hidepid others' processes do not show; a signal finds them.
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return err == nil && id != here+"/"+started
}

// startTime returns when a process began, in clock ticks since the machine did, and
// an error that is fs.ErrNotExist when there is none; see proc_pid_stat(5). A
// process that ended and was not reaped yet has none.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name in parentheses, and may contain any.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, start = 0, 19 // fields 3 and 22
	switch {
	case len(fields) <= start:
		return "", fmt.Errorf("process %d: its status has %d fields", pid, len(fields))
	case fields[state] == "Z" || fields[state] == "X":
		return "", os.ErrNotExist
	}
	return fields[start], nil
}
