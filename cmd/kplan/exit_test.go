package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
)

func TestExitCode(t *testing.T) {
	var (
		boom    = &runner.StepError{Step: "a", Err: errors.New("boom")}
		late    = &runner.StepError{Step: "b", Err: fmt.Errorf("while waiting: %w", &runner.TimeoutError{After: time.Second})}
		stop    = &runner.Interrupted{Signal: os.Interrupt}
		term    = &runner.Interrupted{Signal: syscall.SIGTERM}
		allLate = errors.Join(late, late)
	)
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"done":                            {nil, 0},
		"a step failed":                   {errors.Join(boom), 1},
		"one failed, one timed out":       {errors.Join(late, boom), 1},
		"all timed out":                   {allLate, 4},
		"all timed out, and it was shown": {&shownError{allLate}, 4},
		"the whole run timed out":         {&runner.TimeoutError{After: time.Second}, 4},
		"timed out, output failed":        {errors.Join(&shownError{allLate}, errors.New("disk is full")), 1},
		"bad plan":                        {document.Diagnostics{{Message: "x"}}, 2},
		"bad step, seen when it started":  {&runner.StepError{Step: "a", Err: document.Diagnostics{{Message: "x"}}}, 1},
		"bad usage":                       {usagef("x"), 2},
		"bad kubeconfig":                  {fmt.Errorf("here: %w", usagef("x")), 2},
		"interrupted":                     {stop, 130},
		"terminated":                      {term, 143},
		"interrupted after a failure":     {errors.Join(stop, boom), 130},
		"aborted":                         {&shownError{errors.Join(errors.Join(term, runner.ErrAborted), late)}, 143},
		"anything else":                   {errors.New("x"), 1},
	} {
		require.Equal(t, c.want, exitCode(c.err), name)
	}
}

func TestSplit(t *testing.T) {
	a, b := errors.New("a"), errors.New("b\nof two lines")
	worded := fmt.Errorf("both: %w, %w", a, b)
	for name, c := range map[string]struct {
		err  error
		want []error
	}{
		"none":             {nil, nil},
		"one":              {a, []error{a}},
		"two":              {errors.Join(a, b), []error{a, b}},
		"joined twice":     {errors.Join(errors.Join(a, b), a), []error{a, b, a}},
		"words of its own": {worded, []error{worded}},
	} {
		require.Equal(t, c.want, split(c.err), name)
	}
}
