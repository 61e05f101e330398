//go:build unix

package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock takes the lock of path, waiting for it until ctx is done, and returns
// what gives it up. The file is removed when it is given up.
func Lock(ctx context.Context, path string, busy Busy) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && same(file, path) {
			return func() {
				_ = os.Remove(path)
				_ = file.Close()
			}, nil
		}
		_ = file.Close()
		if err == nil {
			continue // the holder removed the file that we had opened
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, err
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

// same reports whether path still names the open file.
func same(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}
