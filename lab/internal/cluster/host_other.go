//go:build !linux

package cluster

import "runtime"

// HostError says that this machine cannot run a lab.
type HostError struct{ Message string }

func (e *HostError) Error() string { return e.Message }

// checkHost always fails: a lab is made of Linux processes.
func checkHost(int) error {
	return &HostError{"a lab runs on Linux only, and this is " + runtime.GOOS}
}
