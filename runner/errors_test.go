package runner_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

func TestTimeoutErrorSaysWhatItWaitedFor(t *testing.T) {
	for want, err := range map[string]*runner.TimeoutError{
		"timed out after 5m": {After: 5 * time.Minute},
		"timed out after 1h": {After: time.Hour},
		"timed out after 1h30m waiting for webhook \"x\" to answer":   {After: 90 * time.Minute, For: `webhook "x" to answer`},
		"timed out after 90ms waiting for certificate: endpoints 0/1": {After: 90 * time.Millisecond, For: "certificate", Last: "endpoints 0/1"},
	} {
		require.EqualError(t, err, want)
	}
}

func TestMarksSurviveWrapping(t *testing.T) {
	boom := errors.New("boom")
	err := fmt.Errorf("while installing: %w", runner.Permanent(runner.WithHint(boom, "mend the chart")))
	require.EqualError(t, err, "while installing: boom")
	require.True(t, runner.IsPermanent(err))
	require.Equal(t, "mend the chart", runner.HintOf(err))
	require.ErrorIs(t, err, boom)
	require.Equal(t, "outer", runner.HintOf(runner.WithHint(err, "outer")))
}

func TestNoErrorStaysNone(t *testing.T) {
	require.NoError(t, runner.Permanent(nil))
	require.NoError(t, runner.WithHint(nil, "x"))
	require.Empty(t, runner.HintOf(errors.New("plain")))
	require.False(t, runner.IsPermanent(errors.New("plain")))
}
