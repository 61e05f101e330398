package fleetview

import (
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// mostCauses is how many causes the summary tells of.
const mostCauses = 20

// WaveRows are the rows of a table of waves, with columns for those states that clusters
// are in. The first one is the head.
func WaveRows(x *fleet.Execution) [][]string {
	var shown []fleet.State
	all := x.Counts()
	head := []string{"wave", "state", "clusters"}
	for _, s := range fleet.States {
		if all[s] > 0 {
			shown = append(shown, s)
			head = append(head, stateWord(s))
		}
	}
	rows := [][]string{append(head, "time")}
	for _, w := range x.Waves {
		n := w.Counts()
		row := []string{words.Line(w.Name), stateWord(w.State), fmt.Sprint(len(w.Members))}
		for _, s := range shown {
			cell := "-"
			if n[s] > 0 {
				cell = fmt.Sprint(n[s])
			}
			row = append(row, cell)
		}
		took := "-"
		if d := WaveTook(x, w, x.Last); d > 0 {
			took = words.Brief(d)
		}
		rows = append(rows, append(row, took))
	}
	return rows
}

// summarize writes the table of waves, failures grouped by cause, how the run ended and how
// to go on.
func summarize(w io.Writer, x *fleet.Execution, o Options) {
	rows := WaveRows(x)
	for i, cell := range rows[0] {
		rows[0][i] = strings.ToUpper(cell)
	}
	fmt.Fprintln(w)
	fmt.Fprint(w, words.Table(rows, func(i, j int, cell, pad string) string {
		if i > 0 && j == 1 {
			return o.Paint(waveColours[x.Waves[i-1].State], cell+pad)
		}
		return o.Clean(cell) + pad
	}))
	failures := x.Failures()
	for _, g := range failures[:min(len(failures), mostCauses)] {
		fmt.Fprintf(w, "\n%s %s\n", o.Paint(colours[fleet.Failed], words.Count(len(g.Clusters), "cluster")+":"), o.Clean(CauseText(g.Cause)))
		fmt.Fprintf(w, "  %s\n", o.Clean(Names(g.Clusters)))
		if r := g.Clusters[0].Result; r.Hint != "" {
			fmt.Fprintf(w, "  %s %s\n", o.Paint("36", "hint:"), words.Indent(o.Clean(o.Hint(r.Hint)), "  "))
		}
	}
	if more := len(failures) - mostCauses; more > 0 {
		fmt.Fprintf(w, "\nand %s\n", words.Count(more, "more cause"))
	}
	fmt.Fprintf(w, "\nfleet %s %s in %s: %s\n", o.Clean(x.First.Fleet), o.Paint(colours[x.State], string(x.State)), words.Brief(x.Last.Sub(x.Started)), CountsText(x.Counts()))
	if x.Stop != nil {
		fmt.Fprintf(w, "stopped: %s\n", o.Clean(StopText(x.Stop)))
	}
	if x.Error != "" && x.State != fleet.Succeeded {
		ui.Problem(w, o.Options, x.Error, x.Hint)
	}
	if again := o.command("resume"); again != "" && x.State != fleet.Succeeded {
		text := "mend the causes, then go on with what is unfinished: "
		if len(failures) == 0 {
			text = "go on with what is unfinished: "
		}
		fmt.Fprintf(w, "%s %s\n", o.Paint("36", "hint:"), o.Clean(text+again))
	}
}
