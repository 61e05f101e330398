package cluster

import "os"

// HostError says that this machine cannot run a lab.
type HostError struct{ Message string }

func (e *HostError) Error() string { return e.Message }

// checkHost reports whether a lab can run here.
func checkHost(nodes int) error {
	if nodes > 0 && os.Geteuid() != 0 {
		return &HostError{"a lab with a node needs root (network namespaces, containers)"}
	}
	return nil
}
