package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// TestAxis checks that runs of any length have some ticks and not too many.
func TestAxis(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d := time.Duration(0); d < 1000*24*time.Hour; d = d*3/2 + time.Millisecond {
		l := fold([]runner.Event{{Time: start, Type: runner.TypePlan}, {Time: start.Add(d), Type: runner.TypeDone, State: runner.StateSucceeded}})
		a := newPageWriter(newRun(l, Meta{})).axis()
		require.LessOrEqual(t, len(a.Ticks), 81, d)
		require.True(t, d < 10*time.Millisecond || len(a.Ticks) >= 2, "%s has %d ticks", d, len(a.Ticks))
	}
}

// TestGraphLayout checks that every step stands right of what it needs, and that
// no two of a column touch.
func TestGraphLayout(t *testing.T) {
	r := newPageWriter(newRun(tangledRun(40), Meta{}))
	g := r.graph()
	byName := map[string]graphNode{}
	for _, n := range g.Nodes {
		byName[n.Name] = n
		require.GreaterOrEqual(t, n.Y, 0)
		require.LessOrEqual(t, n.X+nodeWidth, g.Width)
		require.LessOrEqual(t, n.Y+nodeHeight, g.Height)
	}
	needs := 0
	for _, s := range r.Steps() {
		for _, need := range s.Needs {
			needs++
			require.Less(t, byName[need].X+nodeWidth, byName[s.Name].X)
		}
		require.LessOrEqual(t, byName[s.Name].X, byName["report"].X, "the finally step is last")
	}
	require.Len(t, g.Edges, needs)
	for _, a := range g.Nodes {
		for _, b := range g.Nodes {
			require.False(t, a.Name != b.Name && a.X == b.X && a.Y < b.Y+nodeHeight && b.Y < a.Y+nodeHeight, "%s and %s overlap", a.Name, b.Name)
		}
	}
	critical := 0
	for _, e := range g.Edges {
		if e.Critical {
			critical++
		}
	}
	require.Equal(t, len(r.critical)-2, critical, "the finally step needs none by name")
}

// TestGraphOfCircles draws what no plan has, and a file may.
func TestGraphOfCircles(t *testing.T) {
	l := fold([]runner.Event{{Type: runner.TypePlan, Steps: []runner.StepInfo{
		{Name: "a", Needs: []string{"b"}}, {Name: "b", Needs: []string{"a"}}, {Name: "c", Needs: []string{"c", "gone"}}, {Name: "d", Finally: true, Needs: []string{"a", "d"}},
	}}})
	g := newPageWriter(newRun(l, Meta{})).graph()
	require.Len(t, g.Nodes, 4)
	require.NotContains(t, string(write(t, HTML, l, meta)), "NaN")
}

// TestOrders tells of what somebody ordered who watched the run.
func TestOrders(t *testing.T) {
	l := fold([]runner.Event{
		{Type: runner.TypePlan, Plan: "p", Steps: []runner.StepInfo{{Name: "a"}}},
		{Type: runner.TypePaused},
		{Type: runner.TypeOrder, Step: "a", Message: "retry"},
		{Type: runner.TypeOrder, Step: "a", Message: "skip", Error: "only waits can be skipped"},
		{Type: runner.TypeDone, State: runner.StateSucceeded},
	})
	for _, kind := range []Kind{HTML, Markdown} {
		got := string(write(t, kind, l, meta))
		require.Contains(t, got, "the run waits for orders")
		require.Contains(t, got, "somebody ordered: retry a")
		require.Contains(t, got, "somebody ordered: skip a (refused: only waits can be skipped)")
	}
}

// TestSameCause tells of steps together that failed for one cause.
func TestSameCause(t *testing.T) {
	l := bigRun(400)
	failed := l.Execution().Failed()
	require.Len(t, failed, 4)
	md := string(write(t, Markdown, l, meta))
	require.Equal(t, 1, strings.Count(md, "#### ✗"))
	for _, s := range failed[1:] {
		require.Contains(t, md, s.Name)
	}
}
