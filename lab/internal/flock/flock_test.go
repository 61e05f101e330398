//go:build unix

package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// One holder at a time, although each removes the file when it is done.
func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab.lock")
	var holders, intruders atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			unlock, err := Lock(t.Context(), path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if holders.Add(1) > 1 {
				intruders.Add(1)
			}
			runtime.Gosched() // let the others try
			holders.Add(-1)
			unlock()
		})
	}
	all.Wait()
	require.Zero(t, intruders.Load())
	_, err := os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Who waits is told so, and can give up with a reason.
func TestLockBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab.lock")
	unlock, err := Lock(t.Context(), path, nil)
	require.NoError(t, err)
	defer unlock()

	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("no patience")
	_, err = Lock(ctx, path, func() { cancel(impatient) })
	require.ErrorIs(t, err, impatient)
}
