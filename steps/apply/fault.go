package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// mostNamed is how many objects an error names.
const mostNamed = 5

// faults are the failures of several objects, told in one line.
type faults []error

func (f faults) err() error {
	if len(f) == 1 {
		return f[0]
	}
	var parts []string
	for _, err := range f[:min(len(f), mostNamed)] {
		parts = append(parts, err.Error())
	}
	text := fmt.Sprintf("%d objects failed: %s", len(f), strings.Join(parts, "; "))
	if more := len(f) - mostNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return kubeerr.Reword(text, f...)
}

// ended tells what was under way when the context ended.
func (r *run) ended(cause, err error) error {
	if timeout := (*runner.TimeoutError)(nil); errors.As(err, &timeout) && timeout.For != "" {
		return err // says what it waited for
	}
	errs := r.flow.errs
	if len(errs) > 0 && !errors.Is(errs[0], context.Canceled) && !errors.Is(errs[0], context.DeadlineExceeded) && !errors.Is(errs[0], cause) {
		return fmt.Errorf("%w; before, %w", cause, errs.err())
	}
	var open []string
	for _, it := range r.items {
		if !it.done {
			open = append(open, it.ID())
		}
	}
	if len(open) == 0 {
		return cause
	}
	slices.Sort(open)
	more := ""
	if len(open) > mostNamed {
		more = fmt.Sprintf(" and %d more", len(open)-mostNamed)
		open = open[:mostNamed]
	}
	return fmt.Errorf("%w; not applied yet: %s%s", cause, strings.Join(open, ", "), more)
}
