// Package footprint keeps a process small that lasts beside the work of others. It
// does not change what the process does.
package footprint

import "runtime/debug"

// percent is how much more than what is in use the heap may grow: a proxy allocates
// little, so that collections are rare all the same.
const percent = 50

// Trim gives back what only the start needed, and keeps the heap small from now on,
// unless GOGC asks for less.
func Trim() {
	if old := debug.SetGCPercent(percent); old < percent { // -1 is no collection at all
		debug.SetGCPercent(old)
	}
	unmap()
}
