//go:build !unix

package flock

import (
	"context"
	"errors"
)

// Lock fails: a lab runs on Linux only.
func Lock(context.Context, string, Busy) (func(), error) {
	return nil, errors.New("locks between programs work on Unix only")
}
