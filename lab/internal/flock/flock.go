// Package flock is a lock between programs: a file that one of them at a time
// holds, and removes when it is done. The kernel gives it up when its holder dies.
package flock

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Lock takes the lock of path, waiting for it until ctx is done, and returns
// what gives it up. If somebody else holds it, busy is called once, unless it is nil.
func Lock(ctx context.Context, path string, busy func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	for {
		lock := flock.New(path)
		locked, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if locked && same(lock) {
			return func() {
				_ = os.Remove(path)
				_ = lock.Close()
			}, nil
		}
		_ = lock.Close()
		if locked {
			continue // the holder removed the file that we had opened
		}
		if busy != nil {
			busy()
			busy = nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// same reports whether the path of the lock still names its open file.
func same(lock *flock.Flock) bool {
	opened, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(opened, named)
}
