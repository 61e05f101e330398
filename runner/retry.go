package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cenkalti/backoff/v4"

	"github.com/kplan-dev/kplan/plan"
)

// waker is an error that knows when another attempt is worthwhile: the delay
// before it ends as soon as the channel is closed or sends.
type waker interface{ Wake() <-chan struct{} }

// classer is an error that knows of which kinds a failure is, see ClassesOf.
type classer interface{ Classes() []plan.RetryOn }

// ClassesOf returns the kinds of failure of the outermost error in err's chain that
// knows any; nil without.
func ClassesOf(err error) []plan.RetryOn {
	var c classer
	if errors.As(err, &c) {
		return c.Classes()
	}
	return nil
}

// retries reports whether a plan wants another attempt after err, and if not, why.
// A failure that another attempt cannot mend is tried again only when the plan
// names its kind: whoever owns a field of an object may let go of it.
func retries(on []plan.RetryOn, err error) (again bool, why string) {
	classes := ClassesOf(err)
	if slices.ContainsFunc(classes, func(c plan.RetryOn) bool { return slices.Contains(on, c) }) {
		return true, ""
	}
	if IsPermanent(err) || len(on) == 0 || slices.Contains(on, plan.RetryAny) {
		return !IsPermanent(err), ""
	}
	names := make([]string, len(on))
	for i, c := range on {
		names[i] = string(c)
	}
	return false, fmt.Sprintf("not retried: retry.on is [%s]", strings.Join(names, ", "))
}

// delays returns the times between attempts. Each is at most that of the plan, and
// shorter by a random part of up to the jitter of it: ExponentialBackOff, which
// randomizes in both directions, is given the middle of that span.
func delays(r plan.Retry) *backoff.ExponentialBackOff {
	delay, jitter := *r.RetryDelaySeconds, *r.Jitter // plan.StepRetry sets all
	longest := max(delay, r.MaxDelaySeconds)
	middle := 1 - jitter/2
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(seconds(delay*middle)),
		backoff.WithMaxInterval(seconds(longest*middle)),
		backoff.WithMultiplier(max(r.Multiplier, 1)),
		backoff.WithRandomizationFactor(jitter/2/middle),
		backoff.WithMaxElapsedTime(0), // attempts are counted, and the step has a timeout
	)
}
