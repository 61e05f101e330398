package plan

import "slices"

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
	g.order, g.level = sorted(g.needs, g.dependents)
	return g
}

// sorted orders the steps after their needs; among those that are ready the one
// which stands first in the plan goes first. Steps in or behind a cycle are
// left out. The level of a step is one more than the highest of its needs.
func sorted(needs, dependents [][]int) (order, level []int) {
	level = make([]int, len(needs))
	missing := make([]int, len(needs))
	var ready []int // sorted
	for i, n := range needs {
		if missing[i] = len(n); len(n) == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		order = append(order, i)
		for _, d := range dependents[i] {
			level[d] = max(level[d], level[i]+1)
			if missing[d]--; missing[d] == 0 {
				at, _ := slices.BinarySearch(ready, d)
				ready = slices.Insert(ready, at, d)
			}
		}
	}
	return order, level
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

// Ancestors returns the steps that the named ones need, directly or not, in plan
// order. A step of a cycle is its own ancestor.
func (g *Graph) Ancestors(steps ...string) []string {
	return g.named(g.reachable(g.indices(steps), g.needs))
}

// Descendants returns the steps that need one of the named ones, directly or not, in
// plan order. A step of a cycle is its own descendant.
func (g *Graph) Descendants(steps ...string) []string {
	return g.named(g.reachable(g.indices(steps), g.dependents))
}

// reachable returns the steps to which edges lead from others, over any number of
// them, sorted.
func (g *Graph) reachable(todo []int, edges [][]int) []int {
	seen := make([]bool, len(g.names))
	var found []int
	for ; len(todo) > 0; todo = todo[1:] {
		for _, i := range edges[todo[0]] {
			if !seen[i] {
				seen[i] = true
				found, todo = append(found, i), append(todo, i)
			}
		}
	}
	slices.Sort(found)
	return found
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
	for _, i := range slices.Sorted(slices.Values(g.order)) {
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
	for todo := []int{from}; len(todo) > 0; todo = todo[1:] {
		for _, n := range g.needs[todo[0]] {
			if n == goal {
				return true
			}
			if !seen[n] && g.level[n] > g.level[goal] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return false
}

// Cycles returns one cycle of every group of steps that need each other: the
// shortest through the group's first step in the plan, which stands first. Each
// step needs the next one, and the last one needs the first. A step that needs
// itself is a cycle of one.
func (g *Graph) Cycles() [][]string {
	var cycles [][]string
	from := make([]int, len(g.names))
	done := make([]bool, len(g.names)) // in no cycle, or in a group that was seen
	for i := range from {
		from[i] = -1
	}
	before, _ := sorted(g.dependents, g.needs)
	for _, i := range slices.Concat(g.order, before) {
		done[i] = true
	}
	for i := range g.names {
		if done[i] {
			continue
		}
		cycle := g.shortestCycle(i, from)
		if cycle == nil { // it is between two cycles
			continue
		}
		cycles = append(cycles, g.named(cycle))
		dependents := g.reachable([]int{i}, g.dependents)
		for _, n := range g.reachable([]int{i}, g.needs) {
			if _, both := slices.BinarySearch(dependents, n); both {
				done[n] = true
			}
		}
	}
	return cycles
}

// shortestCycle searches breadth first from a step back to itself. In from it
// notes how it came to a step; all of it is -1 before and after.
func (g *Graph) shortestCycle(first int, from []int) []int {
	queue := []int{first}
	defer func() {
		for _, i := range queue {
			from[i] = -1
		}
	}()
	for at := 0; at < len(queue); at++ {
		i := queue[at]
		for _, n := range g.needs[i] {
			if n == first {
				cycle := []int{i}
				for i != first {
					i = from[i]
					cycle = append(cycle, i)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if from[n] < 0 {
				from[n] = i
				queue = append(queue, n)
			}
		}
	}
	return nil
}

// indices leaves out names that no step has.
func (g *Graph) indices(names []string) []int {
	var indices []int
	for _, name := range names {
		if i, ok := g.index[name]; ok {
			indices = append(indices, i)
		}
	}
	return indices
}

func (g *Graph) named(indices []int) []string {
	var names []string
	for _, i := range indices {
		names = append(names, g.names[i])
	}
	return names
}
