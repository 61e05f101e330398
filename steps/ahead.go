package steps

import (
	"context"
	"fmt"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// Prepare fetches side by side the charts and files that the plan's steps need, while the first
// ones are at work, and reports those that were not fetched before. What cannot be had
// is for the step to tell, and to try again.
func (s *Steps) Prepare(ctx context.Context, r runner.Reporter) {
	news, size := 0, 0
	s.sources.Ahead(ctx, s.plan.Steps, func(a source.Ahead) {
		report := runner.Report{Done: a.Done, Total: a.Total, Message: a.Reference.String()}
		switch {
		case ctx.Err() != nil:
			return
		case a.Err != nil:
			news++
			report.Error = a.Err.Error()
		case !a.Kept:
			news++
			size += len(a.Archive.Bytes)
			report.Message = fmt.Sprintf("fetched %s, %s", a.Reference, bytesOf(len(a.Archive.Bytes)))
		default:
			report.Message = a.Reference.String() + " is as an earlier run fetched it"
		}
		if a.Done == a.Total && news > 0 && a.Err == nil {
			report.Message = fmt.Sprintf("%d of %d fetched, %s", news, a.Total, bytesOf(size))
		}
		if news > 0 {
			r.Report(report)
		}
	})
}

// bytesOf writes a size as people do.
func bytesOf(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
