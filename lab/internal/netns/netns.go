// Package netns makes the network namespace that a lab lives in, with a
// bridge that carries the node's address and no way out, and runs code and
// programs inside it. It does not know what runs there.
package netns

import "path/filepath"

// folder is where ip-netns(8) keeps names.
const folder = "/run/netns"

// Network is what a new namespace gets.
type Network struct {
	Node     string // the node's address with prefix length, e.g. 10.123.0.1/24
	Services string // the range of Service addresses, e.g. 10.96.0.0/16
}

// Path returns the file that stands for the namespace called name.
func Path(name string) string { return filepath.Join(folder, name) }

// Namespaces says in which namespaces a program runs.
type Namespaces struct {
	Net    string  `json:"net,omitempty"`    // file of the network namespace; empty: the caller's
	Mounts []Mount `json:"mounts,omitempty"` // not empty: a new mount namespace with these in it
	Join   int     `json:"join,omitempty"`   // not zero: the mount namespace of this process
}

// Mount hides the folder To: behind the folder From, or, if From is empty,
// behind an empty tmpfs.
type Mount struct {
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}
