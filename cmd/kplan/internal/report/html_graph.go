package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
)

// Sizes of the drawn graph, in pixels of the page.
const (
	graphNodes = 150 // more are drawn as small squares, without arrows

	nodeWidth, nodeHeight = 190, 40
	columnGap, rowGap     = 56, 14
	nodeLetters           = 22

	squareSize, squareGap = 18, 4
	squareRows            = 24 // in one column of a level
)

// htmlGraph is the graph of the steps, drawn from left to right.
type htmlGraph struct {
	Width, Height int
	Nodes         []graphNode
	Edges         []graphEdge
	// Small says that nodes are squares without names.
	Small bool
}

type graphNode struct {
	*htmlStep
	X, Y        int
	Label, Text string
}

type graphEdge struct {
	Path, Title  string
	Critical, On bool
}

// vertex is a step in the layout, or a place that an arrow passes on its way
// across a level.
type vertex struct {
	step        int // -1: an arrow passes
	level       int
	y, height   float64
	left, right []*vertex
}

func (v *vertex) middle() float64 { return v.y + v.height/2 }

// graph draws the steps, each right of all that it needs; finally steps stand
// right of all others. It is nil when there is nothing to see in it.
func (w *pageWriter) graph() *htmlGraph {
	if len(w.steps) < 2 {
		return nil
	}
	levels := w.levels()
	if len(w.steps) > graphNodes {
		return squares(w.steps, levels)
	}
	return w.arrows(levels)
}

// levels says how far from the left each step stands. One that needs itself, by
// others too, stands leftmost: no plan that runs has such steps, but a file may.
func (w *pageWriter) levels() []int {
	levels := make([]int, len(w.steps))
	first := 0
	for _, last := range []bool{false, true} {
		var part plan.Plan
		for _, s := range w.Steps() {
			if s.Finally == last {
				part.Steps = append(part.Steps, plan.Step{Name: s.Name, Needs: plan.Needs(s.Needs...)})
			}
		}
		found := part.Graph().Levels()
		for n, names := range found {
			for _, name := range names {
				levels[w.links[name].Index] = first + n
			}
		}
		first += len(found)
	}
	return levels
}

// squares draws many steps: a block of squares for each level.
func squares(steps []*htmlStep, levels []int) *htmlGraph {
	g := &htmlGraph{Small: true}
	x := 0
	for level := 0; level <= slices.Max(levels); level++ {
		n := 0
		for i, s := range steps {
			if levels[i] != level {
				continue
			}
			const pitch = squareSize + squareGap
			g.Nodes = append(g.Nodes, graphNode{htmlStep: s, X: x + n/squareRows*pitch, Y: n % squareRows * pitch})
			g.Width, g.Height = max(g.Width, x+n/squareRows*pitch+squareSize), max(g.Height, n%squareRows*pitch+squareSize)
			n++
		}
		x = g.Width + 28
	}
	return g
}

// arrows draws a box for each step and an arrow for each need.
func (w *pageWriter) arrows(levels []int) *htmlGraph {
	vertices := make([]*vertex, len(w.steps))
	columns := make([][]*vertex, slices.Max(levels)+1)
	for i := range w.steps {
		vertices[i] = &vertex{step: i, level: levels[i], height: nodeHeight}
		columns[levels[i]] = append(columns[levels[i]], vertices[i])
	}
	type arrow struct {
		way  []*vertex
		edge graphEdge
	}
	var all []arrow
	for i, s := range w.Steps() {
		for _, name := range s.Needs {
			link, ok := w.links[name]
			n := link.Index
			if !ok || levels[n] >= levels[i] {
				continue
			}
			way := []*vertex{vertices[n]}
			for level := levels[n] + 1; level < levels[i]; level++ {
				v := &vertex{step: -1, level: level, height: 2}
				columns[level] = append(columns[level], v)
				way = append(way, v)
			}
			way = append(way, vertices[i])
			for k := range way[1:] {
				way[k].right = append(way[k].right, way[k+1])
				way[k+1].left = append(way[k+1].left, way[k])
			}
			on := s.NeedsOn[name]
			title := fmt.Sprintf("%s needs %s", w.steps[i].Name, w.steps[n].Name)
			if on != "" {
				title += fmt.Sprintf(" (%s)", line(string(on)))
			}
			all = append(all, arrow{way, graphEdge{Title: title, On: on != "", Critical: w.onPath(name, s.Name)}})
		}
	}
	place(columns)
	g := &htmlGraph{Width: len(columns)*(nodeWidth+columnGap) - columnGap + 4}
	for i, v := range vertices {
		y := int(v.y)
		g.Nodes = append(g.Nodes, graphNode{
			htmlStep: w.steps[i], X: v.level*(nodeWidth+columnGap) + 2, Y: y,
			Label: shorten(w.steps[i].Name, nodeLetters), Text: shorten(words.Join(" · ", string(w.steps[i].State), w.steps[i].Took), nodeLetters+6),
		})
		g.Height = max(g.Height, y+nodeHeight+4)
	}
	for _, onTop := range []bool{false, true} { // what is drawn last is on top
		for _, a := range all {
			if a.edge.Critical == onTop {
				a.edge.Path = curve(a.way)
				g.Edges = append(g.Edges, a.edge)
			}
		}
	}
	return g
}

// onPath reports whether two steps follow each other on the critical path.
func (w *pageWriter) onPath(from, to string) bool {
	i := slices.Index(w.critical, from)
	return i >= 0 && i+1 < len(w.critical) && w.critical[i+1] == to
}

// place orders each column so that few arrows cross, and moves each vertex
// beside those that it is joined to.
func place(columns [][]*vertex) {
	for _, c := range columns {
		y := 0.0
		for _, v := range c {
			v.y = y
			y += v.height + rowGap
		}
	}
	for range 6 {
		for _, c := range columns {
			settle(c, func(v *vertex) []*vertex { return v.left }, true)
		}
		for _, c := range slices.Backward(columns) {
			settle(c, func(v *vertex) []*vertex { return v.right }, true)
		}
	}
	for range 4 {
		for _, c := range columns {
			settle(c, func(v *vertex) []*vertex { return append(slices.Clone(v.left), v.right...) }, false)
		}
	}
	top := math.Inf(1)
	for _, c := range columns {
		for _, v := range c {
			top = min(top, v.y)
		}
	}
	for _, c := range columns {
		for _, v := range c {
			v.y += 2 - top
		}
	}
}

// settle moves each vertex of a column towards the middle of its neighbours, and
// then those apart that came too close. Ordering, it may change their order.
func settle(c []*vertex, neighbours func(*vertex) []*vertex, order bool) {
	want := map[*vertex]float64{}
	for _, v := range c {
		want[v] = v.middle()
		if n := neighbours(v); len(n) > 0 {
			sum := 0.0
			for _, o := range n {
				sum += o.middle()
			}
			want[v] = sum / float64(len(n))
		}
	}
	if order {
		slices.SortStableFunc(c, func(a, b *vertex) int { return cmp.Compare(want[a], want[b]) })
	}
	spread(c, want)
}

// spread gives the vertices of a column, in their order, the places nearest to
// those they want: neighbours that would touch share the way they have to give.
func spread(c []*vertex, want map[*vertex]float64) {
	type block struct {
		first, n    int
		top, height float64 // of the block, gaps included
		sum         float64 // of what its vertices want of its top
	}
	var blocks []block
	for i, v := range c {
		b := block{first: i, n: 1, height: v.height + rowGap}
		b.sum = want[v] - v.height/2
		b.top = b.sum
		for len(blocks) > 0 && blocks[len(blocks)-1].top+blocks[len(blocks)-1].height > b.top {
			p := blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
			p.sum += b.sum - float64(b.n)*p.height
			p.n += b.n
			p.height += b.height
			p.top = p.sum / float64(p.n)
			b = p
		}
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		y := b.top
		for _, v := range c[b.first : b.first+b.n] {
			v.y = y
			y += v.height + rowGap
		}
	}
}

// curve draws an arrow through the vertices of its way.
func curve(way []*vertex) string {
	x := func(v *vertex) float64 { return float64(v.level*(nodeWidth+columnGap) + 2) }
	var path strings.Builder
	fmt.Fprintf(&path, "M%.0f,%.0f", x(way[0])+nodeWidth, way[0].middle())
	for i, v := range way[1:] {
		before := way[i]
		from, bend := x(before)+nodeWidth, float64(columnGap)/2
		fmt.Fprintf(&path, "C%.0f,%.0f %.0f,%.0f %.0f,%.0f", from+bend, before.middle(), x(v)-bend, v.middle(), x(v), v.middle())
		if v.step < 0 {
			fmt.Fprintf(&path, "H%.0f", x(v)+nodeWidth)
		}
	}
	return path.String()
}
