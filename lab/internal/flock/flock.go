// Package flock is a lock between programs: a file that one of them at a time
// holds. The kernel gives it up when its holder dies.
package flock

// Busy is called once when the lock is held by somebody else; nil: silence.
type Busy func()
