package runner_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// BenchmarkSchedule runs 10,000 steps that do nothing, each of which needs up
// to three earlier ones. The bar is one second, 50 µs per step.
func BenchmarkSchedule(b *testing.B) {
	const n = 10_000
	p := &plan.Plan{Metadata: plan.Metadata{Name: "big"}}
	for i := range n {
		s := plan.Step{Name: fmt.Sprintf("s%d", i), Wait: &plan.Wait{}}
		for _, back := range []int{1, 17, 391} {
			if i%10 >= 5 && i >= back { // half of them are free to start at once
				s.Needs = append(s.Needs, plan.Need{Step: fmt.Sprintf("s%d", i-back)})
			}
		}
		p.Steps = append(p.Steps, s)
	}
	r := runner.Runner{Resolve: always(func(context.Context, runner.Reporter) error { return nil })}
	b.ReportAllocs()
	for b.Loop() {
		x, err := r.Run(b.Context(), p)
		require.NoError(b, err)
		require.Equal(b, n, x.Counts()[runner.StateSucceeded])
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/step")
}
