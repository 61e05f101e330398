//go:build !linux

// Package netns makes the network namespace that a lab lives in. Only Linux
// has such; elsewhere everything returns ErrUnsupported.
package netns

import (
	"context"
	"errors"
	"net"
)

// ErrUnsupported is returned by everything here.
var ErrUnsupported = errors.New("network namespaces exist on Linux only")

// Network is what a new namespace gets.
type Network struct{ Node, Services string }

// Namespaces says in which namespaces a program runs.
type Namespaces struct {
	Net    string  `json:"net,omitempty"`
	Mounts []Mount `json:"mounts,omitempty"`
	Join   int     `json:"join,omitempty"`
}

// Mount hides the folder To.
type Mount struct {
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// Path returns an empty path.
func Path(string) string { return "" }

// Create returns ErrUnsupported.
func Create(context.Context, string, Network) error { return ErrUnsupported }

// Delete has nothing to do.
func Delete(string) error { return nil }

// Listen returns ErrUnsupported.
func Listen(string, string) (net.Listener, error) { return nil, ErrUnsupported }

// Dial returns ErrUnsupported.
func Dial(context.Context, string, string) (net.Conn, error) { return nil, ErrUnsupported }

// Exec returns ErrUnsupported.
func Exec(Namespaces, []string) error { return ErrUnsupported }
