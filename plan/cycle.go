package plan

import "slices"

// Cycles returns one cycle of every group of steps that need each other: the
// shortest through the group's first step in the plan, which stands first. Each
// step needs the next one, and the last one needs the first. A step that needs
// itself is a cycle of one.
func (g *Graph) Cycles() [][]string {
	var cycles [][]string
	from := make([]int, len(g.names))
	for i := range from {
		from[i] = -1
	}
	for _, group := range g.components() {
		first := slices.Min(group)
		if len(group) == 1 && !slices.Contains(g.needs[first], first) {
			continue
		}
		cycles = append(cycles, g.named(g.shortestCycle(first, from)))
	}
	slices.SortFunc(cycles, func(a, b []string) int { return g.index[a[0]] - g.index[b[0]] })
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

// components returns the strongly connected components of the graph (Tarjan's
// algorithm, with a stack of its own: a chain of steps may be long).
func (g *Graph) components() [][]int {
	t := tarjan{g: g, number: make([]int, len(g.names)), low: make([]int, len(g.names)), onStack: make([]bool, len(g.names))}
	for i := range g.names {
		if t.number[i] == 0 {
			t.visit(i)
		}
	}
	return t.found
}

type tarjan struct {
	g           *Graph
	number, low []int
	onStack     []bool
	stack       []int
	last        int
	found       [][]int
}

// frame is one call of the recursive algorithm: a step, and its next need.
type frame struct{ step, next int }

func (t *tarjan) enter(step int) frame {
	t.last++
	t.number[step], t.low[step] = t.last, t.last
	t.stack = append(t.stack, step)
	t.onStack[step] = true
	return frame{step: step}
}

func (t *tarjan) visit(root int) {
	calls := []frame{t.enter(root)}
	for len(calls) > 0 {
		f := &calls[len(calls)-1]
		if needs := t.g.needs[f.step]; f.next < len(needs) {
			n := needs[f.next]
			f.next++
			switch {
			case t.number[n] == 0:
				calls = append(calls, t.enter(n))
			case t.onStack[n]:
				t.low[f.step] = min(t.low[f.step], t.number[n])
			}
			continue
		}
		done := f.step
		calls = calls[:len(calls)-1]
		if len(calls) > 0 {
			up := calls[len(calls)-1].step
			t.low[up] = min(t.low[up], t.low[done])
		}
		if t.low[done] == t.number[done] {
			t.leave(done)
		}
	}
}

// leave takes the component whose first step is root from the stack.
func (t *tarjan) leave(root int) {
	at := slices.Index(t.stack, root)
	group := slices.Clone(t.stack[at:])
	for _, i := range group {
		t.onStack[i] = false
	}
	t.stack = t.stack[:at]
	t.found = append(t.found, group)
}
