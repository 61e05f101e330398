package ui

import "time"

// Brief writes a duration for people: 40ms, 6.2s, 42s, 3m05s, 1h02m.
func Brief(d time.Duration) string { return brief(d) }

// Count writes a number with its noun: 1 step, 2 steps.
func Count(n int, noun string) string { return count(n, noun) }
