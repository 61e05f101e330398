package ledger

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Annotations of a Lease that say who holds it.
const (
	annotationPlan    = "kplan.dev/plan"
	annotationHost    = "kplan.dev/host"
	annotationUser    = "kplan.dev/user"
	annotationPID     = "kplan.dev/pid"
	annotationProcess = "kplan.dev/process"
	annotationSeat    = "kplan.dev/seat"
)

// Holder is the run that has a lock.
type Holder struct {
	// Run is the run's ID. It is the Lease's holder identity.
	Run string `json:"run"`
	// Host, User and PID say for people which process it is, on whose machine.
	Host string `json:"host"`
	User string `json:"user,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Since is when it took the lock, by its own clock.
	Since time.Time `json:"since"`
	// Renewed is when it was last heard of, by its own clock.
	Renewed time.Time `json:"renewed"`
	// Seat is a place that at most one process has at a time, such as an index of a Job
	// whose pods are replaced once they ended: whoever has it now knows that the one before
	// has ended. It is "" for a process that has none.
	Seat string `json:"seat,omitempty"`

	// process tells the process from all others, on this machine and elsewhere; it
	// is empty where a system does not say.
	process string
}

// Self returns this process as the holder of locks for a run.
func Self(run string) Holder {
	h := Holder{Run: run, PID: os.Getpid(), process: processID(os.Getpid())}
	h.Host, _ = os.Hostname()
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	return h
}

// String says for people who holds the lock, where and since when.
func (h Holder) String() string {
	who := "run " + h.Run
	if h.User != "" {
		who += " of " + h.User
	}
	who += " on " + cmp.Or(h.Host, "an unknown host")
	if h.PID != 0 {
		who += fmt.Sprintf(" (pid %d)", h.PID)
	}
	if !h.Since.IsZero() {
		who += ", since " + h.Since.UTC().Format(time.RFC3339)
	}
	return who
}

// ended reports whether the holder is known to run no more. That is known of
// processes of this machine only.
func (h Holder) ended() bool { return h.process != "" && processEnded(h.process, h.PID) }

// holderOf reads who holds a Lease; ok is false when nobody does.
func holderOf(lease *coordinationv1.Lease) (h Holder, ok bool) {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return Holder{}, false
	}
	notes := lease.Annotations
	h = Holder{
		Run: *lease.Spec.HolderIdentity, Host: notes[annotationHost], User: notes[annotationUser],
		process: notes[annotationProcess], Seat: notes[annotationSeat],
	}
	h.PID, _ = strconv.Atoi(notes[annotationPID])
	if t := lease.Spec.AcquireTime; t != nil {
		h.Since = t.Time
	}
	if t := lease.Spec.RenewTime; t != nil {
		h.Renewed = t.Time
	}
	return h, true
}
