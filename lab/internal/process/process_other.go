//go:build !linux

package process

import (
	"context"
	"syscall"
	"time"
)

// Child is a process that this program started.
type Child struct{ Record }

// Done never ends: there is no child.
func (c *Child) Done() <-chan struct{} { return nil }

// Err returns ErrUnsupported.
func (c *Child) Err() error { return ErrUnsupported }

// Start returns ErrUnsupported.
func Start(Spec, string) (*Child, error) { return nil, ErrUnsupported }

// Signal returns ErrUnsupported.
func (r Record) Signal(syscall.Signal) error { return ErrUnsupported }

// Stop returns ErrUnsupported.
func (r Record) Stop(context.Context, time.Duration) error { return ErrUnsupported }
