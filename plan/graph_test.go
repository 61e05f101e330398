package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
)

// steps makes a plan of steps that are written as "name need need".
func steps(lines ...[]string) *plan.Plan {
	p := &plan.Plan{}
	for _, l := range lines {
		p.Steps = append(p.Steps, plan.Step{Name: l[0], Needs: plan.Needs(l[1:]...)})
	}
	return p
}

// A plan made in Go is not checked: what makes no sense is left out.
func TestGraphUnchecked(t *testing.T) {
	g := steps([]string{"a", "nowhere"}, []string{"b", "a", "a"}, []string{"b"}, []string{"self", "self"}, []string{"behind", "self"}).Graph()
	require.Equal(t, []string{"a", "b"}, g.Order())
	require.Equal(t, []string{"a"}, g.Roots())
	require.Equal(t, []string{"a"}, g.Needs("b"))
	require.Equal(t, []string{"b"}, g.Dependents("a"))
	require.Equal(t, [][]string{{"a"}, {"b"}}, g.Levels())
	require.Equal(t, [][]string{{"self"}}, g.Cycles())
	require.Nil(t, g.Needs("nowhere"))
	require.Empty(t, (&plan.Plan{}).Graph().Order())
}

// Ancestors and descendants are found over other steps, each once, and a cycle
// does not keep anybody from ending.
func TestGraphReach(t *testing.T) {
	g := steps([]string{"a"}, []string{"d", "b", "c"}, []string{"b", "a"}, []string{"c", "a"}, []string{"x", "y"}, []string{"y", "x", "a"}).Graph()
	require.Equal(t, []string{"a", "b", "c"}, g.Ancestors("d"))
	require.Equal(t, []string{"d", "b", "c", "x", "y"}, g.Descendants("a"))
	require.Equal(t, []string{"a", "x", "y"}, g.Ancestors("x"))
	require.Nil(t, g.Ancestors("a"))
	require.Nil(t, g.Descendants("nowhere"))
}

// A cycle is one of those of its group: the shortest through the first step.
func TestCycles(t *testing.T) {
	require.Equal(t, [][]string{{"a", "c"}}, steps([]string{"a", "b", "c"}, []string{"b", "c"}, []string{"c", "a"}).Graph().Cycles())
	// Two groups, the second of which needs the first, in the order of the plan.
	require.Equal(t, [][]string{{"x", "y"}, {"a", "b"}},
		steps([]string{"x", "y", "a"}, []string{"a", "b"}, []string{"b", "a"}, []string{"y", "x"}).Graph().Cycles())
}

// On random graphs the order respects every need, and is left incomplete
// exactly when there are cycles, each of which is one.
func TestGraphRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + rnd.IntN(12)
		p := &plan.Plan{}
		for i := range n {
			s := plan.Step{Name: fmt.Sprint("s", i)}
			for range rnd.IntN(3) {
				to := rnd.IntN(n)
				if rnd.IntN(3) > 0 { // mostly backwards, so that many have no cycle
					to = rnd.IntN(i + 1)
				}
				if to != i {
					s.Needs = append(s.Needs, plan.Need{Step: fmt.Sprint("s", to)})
				}
			}
			p.Steps = append(p.Steps, s)
		}
		g := p.Graph()
		order, cycles := g.Order(), g.Cycles()
		require.Equal(t, len(order) == n, len(cycles) == 0)
		require.Equal(t, len(order), len(slices.Concat(g.Levels()...)))
		for i, name := range order {
			for _, need := range g.Needs(name) {
				at := slices.Index(order, need)
				require.True(t, at >= 0 && at < i, "%s before %s in %v", name, need, order)
				require.Contains(t, g.Dependents(need), name)
			}
		}
		seen := map[string]bool{}
		for _, cycle := range cycles {
			require.False(t, seen[cycle[0]])
			for i, name := range cycle {
				seen[name] = true
				require.Contains(t, g.Needs(name), cycle[(i+1)%len(cycle)])
			}
		}
	}
}
