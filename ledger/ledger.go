// Package ledger keeps what is known of the runs of a plan where other runs find
// it: who runs the plan now, as a Lease in each cluster that it writes to.
//
// It does not run anything, and does not decide what a run does that finds the
// plan locked, or loses its lock: its caller does.
package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// NewRunID names a run: by its start in UTC, so that the names of runs sort by
// time, and by chance, as in 20261122-161030-3a12cd, of which 3a1 is milliseconds.
func NewRunID() string {
	chance := make([]byte, 2)
	_, _ = rand.Read(chance) // it never fails
	now := time.Now().UTC()
	return now.Format("20060102-150405-") + fmt.Sprintf("%03x", now.Nanosecond()/1e6) + hex.EncodeToString(chance)[1:]
}

// manager is the field manager of all that this package writes.
const manager = "kplan"

var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// isRun is what NewRunID makes.
var isRun = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]+$`)

// LockName is the name of the Lease that is a plan's lock.
func LockName(plan string) string { return objectName(plan) }

// objectName makes the name of a plan's object: a DNS label that people recognise,
// and that no other plan's name makes.
func objectName(plan string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(plan), "-"), "-")
	const longest = 63 - len("kplan-") - len("-00000000")
	if name == plan && name != "" && len(name) <= longest {
		return "kplan-" + name
	}
	sum := sha256.Sum256([]byte(plan))
	return "kplan-" + strings.TrimSuffix(name[:min(len(name), longest)], "-") + "-" + hex.EncodeToString(sum[:4])
}
