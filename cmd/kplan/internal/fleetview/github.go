package fleetview

import (
	"cmp"
	"fmt"
	"io"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// gitHub is plain for the log of GitHub Actions: with a group that lists the clusters of
// each wave that is over, and an annotation for each cause of failures at the end.
type gitHub struct{ *plain }

func newGitHub(out io.Writer, o Options) *gitHub {
	o.Actions = true
	g := &gitHub{newPlain(out, o)}
	g.wave = g.list
	return g
}

// mostRows is how many clusters a group lists: the runner's log is slow to open beyond some
// thousands of lines.
const mostRows = 2000

// list writes the group of a wave.
func (g *gitHub) list(w *fleet.WaveStatus) {
	if w.State == fleet.WaveNotStarted {
		return
	}
	fmt.Fprintln(&g.Buf, actions.Group(words.Line(fmt.Sprintf("wave %s: %s", w.Name, CountsText(w.Counts())))))
	rows := [][]string{{"CLUSTER", "STATE", "TIME", "NOTE"}}
	for _, c := range w.Members[:min(len(w.Members), mostRows)] {
		took := "-"
		if d := Took(c, g.x.Last); d > 0 {
			took = words.Brief(d)
		}
		rows = append(rows, []string{g.Clean(c.Name), stateWord(c.State), took, words.Cut(g.Clean(Note(c)), 200, " …")})
	}
	fmt.Fprint(&g.Buf, words.Table(rows, nil))
	if more := len(w.Members) - mostRows; more > 0 {
		fmt.Fprintf(&g.Buf, "… %s left out\n", words.Count(more, "cluster"))
	}
	fmt.Fprintln(&g.Buf, actions.EndGroup)
}

// Close implements pump.Drawer.
func (g *gitHub) Close() error {
	g.end()
	g.annotate()
	return g.Sink.Close()
}

// annotate writes an annotation for each cause, as many as the runner takes: the last of
// them stands for those that have no room.
func (g *gitHub) annotate() {
	if g.x.State == "" || g.x.State == fleet.Running {
		return
	}
	var all []actions.Annotation
	add := func(title, message string) {
		all = append(all, actions.Annotation{Level: actions.Error, Title: title, Message: words.Clean(message)})
	}
	if g.x.Stop != nil {
		add("fleet "+words.Line(g.x.First.Fleet)+" stopped", StopText(g.x.Stop))
	}
	if g.x.Error != "" && g.x.State != fleet.Succeeded {
		add("fleet "+words.Line(g.x.First.Fleet), words.Join("\nhint: ", g.x.Error, g.Hint(g.x.Hint)))
	}
	failures := g.x.Failures()
	for i, group := range failures {
		if left := len(failures) - i; left > 1 && len(all) == actions.MaxAnnotations-1 {
			add(words.Count(left, "more cause"), "the summary of the run has them")
			break
		}
		hint := ""
		if r := group.Clusters[0].Result; r != nil {
			hint = g.Hint(r.Hint)
		}
		title := fmt.Sprintf("%s: %s", words.Count(len(group.Clusters), "cluster"), CauseTitle(group.Cause))
		add(title, words.Join("\n", cmp.Or(words.Line(group.Cause.Text), "no cause is known"), Names(group.Clusters), words.Prefixed("hint: ", hint)))
	}
	for _, a := range all {
		fmt.Fprintln(&g.Buf, a)
	}
}
