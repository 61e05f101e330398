//go:build unix

package interrupt_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/runner"
)

func TestContext(t *testing.T) {
	ctx, signals := interrupt.Context(t.Context())
	defer signals.Release()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-ctx.Done()
	require.Equal(t, &runner.Interrupted{Signal: syscall.SIGTERM}, context.Cause(ctx))
	select {
	case <-signals.Abort:
		t.Fatal("one signal must not abort")
	default:
	}
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-signals.Abort
}

func TestContextWhenTheRunHasEndedAnyway(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	_, signals := interrupt.Context(parent)
	defer signals.Release()
	cancel(&runner.TimeoutError{})
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-signals.Abort // the first signal is enough
}
