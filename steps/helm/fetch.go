package helm

import (
	"context"
	"fmt"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// fetching returns a context in which a chart is loaded: how much of it has come is
// reported, and what people should know of how it was come by.
func fetching(ctx context.Context, r runner.Reporter, chart string) context.Context {
	return source.WithProgress(ctx, func(p source.Progress) {
		switch {
		case p.Note != "":
			r.Report(runner.Report{Type: runner.TypeLog, Message: "chart " + chart + ": " + p.Note})
		case p.Done > 0 && p.Total > 0:
			r.Report(runner.Report{Type: runner.TypeProgress, Message: fmt.Sprintf("fetching chart %s: %d of %d KiB", chart, p.Done>>10, p.Total>>10)})
		case p.Done > 0:
			r.Report(runner.Report{Type: runner.TypeProgress, Message: fmt.Sprintf("fetching chart %s: %d KiB", chart, p.Done>>10)})
		}
	})
}
