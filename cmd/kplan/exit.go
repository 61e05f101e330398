package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/child"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
)

// The exit codes. A signal's is 128 and its number.
const (
	exitDone    = 0 // all done
	exitFailed  = 1 // a step failed
	exitUsage   = 2 // a bad plan or a bad command line
	exitChanges = 3 // kplan diff found changes, or kplan lock --check an old lock file
	exitTimeout = 4 // timed out waiting for a webhook or a condition
	exitLocked  = 5 // another run has the plan's lock, or the fleet's
	exitRefused = 6 // --preflight fail found what would keep steps from their work
)

// usageError is a fault of the command line or of what it names.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return cmp.Or(e.hint, runner.HintOf(e.err)) }
func (e *usageError) Usage() bool   { return true }

// user is an error that knows whether the user's input is at fault.
type user interface{ Usage() bool }

// usagef makes a usageError.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// shownError is an error that was shown already.
type shownError struct{ err error }

func (e *shownError) Error() string { return e.err.Error() }
func (e *shownError) Unwrap() error { return e.err }

// shown marks an error as shown. It is nil for none.
func shown(err error) error {
	if err == nil {
		return nil
	}
	return &shownError{err}
}

// exit shows err, unless that was done, and returns the exit code.
func (a *app) exit(err error) int {
	for _, err := range split(err) {
		if shown := (*shownError)(nil); !errors.As(err, &shown) {
			a.show(err)
		}
	}
	return exitCode(err)
}

// show writes what went wrong and what to do about it.
func (a *app) show(err error) {
	if faults, ok := errors.AsType[document.Diagnostics](err); ok {
		fmt.Fprintln(a.stderr, a.options(a.stderr).Clean(faults.Error()))
		return
	}
	ui.Problem(a.stderr, a.options(a.stderr), a.secrets().Text(err.Error()), a.secrets().Text(runner.HintOf(err)))
}

// split returns the errors that errors.Join put together, or err alone.
func split(err error) []error {
	if err == nil {
		return nil
	}
	var all []error
	if many, ok := err.(interface{ Unwrap() []error }); ok { // only the outermost
		var lines []string
		for _, e := range many.Unwrap() {
			all = append(all, split(e)...)
			lines = append(lines, e.Error())
		}
		if strings.Join(lines, "\n") == err.Error() { // it has no words of its own
			return all
		}
	}
	return []error{err}
}

// exitCode maps an error to the code that scripts rely on.
func exitCode(err error) int {
	var (
		stop   *runner.Interrupted
		failed *runner.StepError
		held   *ledger.HeldError
		other  *record.HeldError
		before *refusedError
		faults document.Diagnostics
		usage  user
		ended  *child.ExitError
		never  *child.StartError
		coded  *codeError
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &ended): // of kplan hold, which is no one's but the command's
		return ended.Code
	case errors.As(err, &never):
		return never.ExitCode()
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &before):
		return exitRefused
	case errors.As(err, &stop):
		if n, ok := stop.Signal.(syscall.Signal); ok {
			return 128 + int(n)
		}
		return exitFailed
	case errors.As(err, &held), errors.As(err, &other):
		return exitLocked
	case errors.As(err, &faults) && !errors.As(err, &failed), // a late step may turn out to be faulty
		errors.As(err, &usage) && usage.Usage():
		return exitUsage
	case errors.Is(err, errChanges):
		return exitChanges
	case onlyTimeouts(err):
		return exitTimeout
	}
	return exitFailed
}

// onlyTimeouts reports whether nothing but time was lacking.
func onlyTimeouts(err error) bool {
	for _, e := range split(err) {
		if shown, ok := e.(*shownError); ok { //nolint:errorlint // it is outermost
			if !onlyTimeouts(shown.err) {
				return false
			}
			continue
		}
		if timeout := (*runner.TimeoutError)(nil); !errors.As(e, &timeout) {
			return false
		}
	}
	return true
}
