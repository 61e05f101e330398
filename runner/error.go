package runner

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// StepError is the failure of one step.
type StepError struct {
	// Step is the step's name.
	Step string
	// Err is what its action returned.
	Err error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %q: %v", e.Step, e.Err) }

// Unwrap returns Err.
func (e *StepError) Unwrap() error { return e.Err }

// Interrupted is the cause of a context that a signal cancelled.
type Interrupted struct{ Signal os.Signal }

func (e *Interrupted) Error() string { return fmt.Sprintf("interrupted (signal: %s)", e.Signal) }

// isFinal reports whether the cause of a run's stop forbids its finally steps.
func isFinal(cause error) bool {
	final := interface{ Final() bool }(nil)
	return errors.As(cause, &final) && final.Final()
}

// ErrAborted says that the run returned although actions were still at work.
var ErrAborted = errors.New("aborted: work in progress was left as it was")

// ErrStuck says that steps were left which could never start: the plan was
// not validated, and has a cycle or a need that does not exist.
var ErrStuck = errors.New("steps are left that can never start: their needs form a cycle or do not exist")

// panicError is a panic in an action.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Hint implements the interface that HintOf looks for.
func (e *panicError) Hint() string {
	return "this is a bug in kplan; the stack is in the step's log"
}

// abandonedError says that an action did not return when it was told to.
type abandonedError struct {
	cause error
	grace time.Duration
}

func (e *abandonedError) Error() string {
	return fmt.Sprintf("%v; the step did not stop within %v and was abandoned", e.cause, e.grace)
}

func (e *abandonedError) Unwrap() error { return e.cause }
