package plan

import (
	"container/heap"
	"slices"
)

// Graph is what needs what among the steps of a plan. All of its lists are in a
// stable order. Needs that no step has, and steps whose name was there before,
// are left out: Load refuses such plans.
type Graph struct {
	names []string
	index map[string]int
	// needs and dependents hold indices of names, each once, in plan order.
	needs, dependents [][]int
	order             []int
	level             []int
}

// Graph returns the graph of the plan's steps as they are now.
func (p *Plan) Graph() *Graph {
	g := &Graph{index: make(map[string]int, len(p.Steps))}
	for _, s := range p.Steps {
		if _, dup := g.index[s.Name]; !dup {
			g.index[s.Name] = len(g.names)
			g.names = append(g.names, s.Name)
		}
	}
	g.needs = make([][]int, len(g.names))
	g.dependents = make([][]int, len(g.names))
	seen := make([]bool, len(g.names))
	for _, s := range p.Steps {
		to := g.index[s.Name]
		if seen[to] {
			continue
		}
		seen[to] = true
		for _, n := range s.NeedNames() {
			if from, ok := g.index[n]; ok && n != "" {
				g.needs[to] = append(g.needs[to], from)
			}
		}
		slices.Sort(g.needs[to])
		g.needs[to] = slices.Compact(g.needs[to])
		for _, from := range g.needs[to] {
			g.dependents[from] = append(g.dependents[from], to)
		}
	}
	for _, d := range g.dependents {
		slices.Sort(d)
	}
	g.sort()
	return g
}

// sort orders the steps after their needs; among those that are ready the one
// which stands first in the plan goes first. Steps in or behind a cycle are
// left out.
func (g *Graph) sort() {
	g.level = make([]int, len(g.names))
	missing := make([]int, len(g.names))
	ready := &intHeap{}
	for i, n := range g.needs {
		if missing[i] = len(n); len(n) == 0 {
			heap.Push(ready, i)
		}
	}
	for ready.Len() > 0 {
		i, _ := heap.Pop(ready).(int)
		g.order = append(g.order, i)
		for _, d := range g.dependents[i] {
			g.level[d] = max(g.level[d], g.level[i]+1)
			if missing[d]--; missing[d] == 0 {
				heap.Push(ready, d)
			}
		}
	}
}

// Order returns all steps, each after those that it needs, in plan order where the
// needs allow it. Steps in a cycle, and those that need one, are left out.
func (g *Graph) Order() []string { return g.named(g.order) }

// Needs returns the steps that must have succeeded before the named one starts.
func (g *Graph) Needs(step string) []string {
	if i, ok := g.index[step]; ok {
		return g.named(g.needs[i])
	}
	return nil
}

// Dependents returns the steps that need the named one directly.
func (g *Graph) Dependents(step string) []string {
	if i, ok := g.index[step]; ok {
		return g.named(g.dependents[i])
	}
	return nil
}

// Ancestors returns the steps that the named one needs, directly or not, in plan
// order. A step of a cycle is its own ancestor.
func (g *Graph) Ancestors(step string) []string { return g.reach(step, g.needs) }

// Descendants returns the steps that need the named one, directly or not, in plan
// order. A step of a cycle is its own descendant.
func (g *Graph) Descendants(step string) []string { return g.reach(step, g.dependents) }

// reach names the steps to which edges lead from one, over any number of others.
func (g *Graph) reach(step string, edges [][]int) []string {
	from, ok := g.index[step]
	if !ok {
		return nil
	}
	seen := make([]bool, len(g.names))
	var found []int
	for todo := []int{from}; len(todo) > 0; todo = todo[1:] {
		for _, i := range edges[todo[0]] {
			if !seen[i] {
				seen[i] = true
				found, todo = append(found, i), append(todo, i)
			}
		}
	}
	slices.Sort(found)
	return g.named(found)
}

// Roots returns the steps that need nothing.
func (g *Graph) Roots() []string {
	var roots []string
	for i, n := range g.needs {
		if len(n) == 0 {
			roots = append(roots, g.names[i])
		}
	}
	return roots
}

// Levels groups the steps of Order: each stands one level below the lowest step
// that it needs.
func (g *Graph) Levels() [][]string {
	var levels [][]string
	byIndex := slices.Sorted(slices.Values(g.order))
	for _, i := range byIndex {
		for len(levels) <= g.level[i] {
			levels = append(levels, nil)
		}
		levels[g.level[i]] = append(levels[g.level[i]], g.names[i])
	}
	return levels
}

// Follows reports whether step needs the step before, directly or not. Of steps in a
// cycle, or behind one, it knows nothing.
func (g *Graph) Follows(step, before string) bool {
	from, ok1 := g.index[step]
	goal, ok2 := g.index[before]
	if !ok1 || !ok2 || g.level[from] <= g.level[goal] {
		return false
	}
	seen := make([]bool, len(g.names))
	queue := []int{from}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, n := range g.needs[i] {
			if n == goal {
				return true
			}
			if !seen[n] && g.level[n] > g.level[goal] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return false
}

func (g *Graph) named(indices []int) []string {
	if len(indices) == 0 {
		return nil
	}
	names := make([]string, len(indices))
	for i, n := range indices {
		names[i] = g.names[n]
	}
	return names
}

// intHeap gives the lowest number first.
type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *intHeap) Push(x any) { *h = append(*h, x.(int)) }

// Pop implements heap.Interface.
func (h *intHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
