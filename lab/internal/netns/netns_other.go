//go:build !linux

package netns

import (
	"context"
	"errors"
	"net"
)

// ErrUnsupported is returned by everything here.
var ErrUnsupported = errors.New("network namespaces exist on Linux only")

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
