//go:build !linux

package node

// Clean has nothing to end: pods run on Linux only.
func (n Node) Clean() error { return nil }

// Sweep has nothing to undo.
func Sweep() error { return nil }

// RaiseLimits has nothing to raise.
func RaiseLimits() (bool, error) { return false, nil }
