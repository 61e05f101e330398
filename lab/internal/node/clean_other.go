//go:build !linux

package node

// Clean has nothing to end: pods run on Linux only.
func (n Node) Clean() error { return nil }

// Sweep has nothing to remove.
func Sweep() {}
