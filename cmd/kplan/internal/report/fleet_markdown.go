package report

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// FleetMarkdown writes a fleet's run as Markdown of at most limit bytes: why clusters failed,
// by cause, and a table of the waves and of the clusters that are not done. What has no room
// is counted.
func FleetMarkdown(f *Fleet, limit int) []byte {
	p := &page{limit: limit}
	how := "Took"
	if !f.ended() {
		how = "Not over after"
	}
	fmt.Fprintf(p, "## %s Fleet %s: %s\n\n", fleetGlyphs[f.State], span(f.First.Fleet, "fleet"), f.State)
	fmt.Fprintf(p, "Plan %s on %s in %s. %s %s, started %s.\n", span(f.First.Plan, "plan"), words.Count(len(f.Clusters), "cluster"), words.Count(len(f.Waves), "wave"),
		how, words.Brief(f.elapsed()), clock(f.Started))
	var parts []string
	for _, c := range fleetCounts(f.Counts()) {
		parts = append(parts, fmt.Sprintf("%s %d %s", fleetGlyphs[c.State], c.N, said(c.State)))
	}
	if len(parts) > 0 {
		fmt.Fprintf(p, "\n%s\n", strings.Join(parts, " · "))
	}
	if f.Stop != nil {
		fmt.Fprintf(p, "\n**Stopped:** %s\n", quote(fleetview.StopText(f.Stop), markdownCause))
	}
	if f.Error != "" && f.State != fleet.Succeeded {
		fmt.Fprintf(p, "\n**Error:** %s\n", quote(words.Join("; hint: ", f.Error, f.Hint), markdownCause))
	}
	p.causes(f)
	p.table("Waves", waveRows(f), "wave")
	p.table("Clusters that are not done", undoneRows(f), "cluster")
	about := words.Join(" · ", words.Prefixed("kplan ", quote(f.Meta.Version, markdownCell)), words.Prefixed("run ", quote(f.First.Run, markdownCell)), quote(f.First.Digest, markdownCell))
	fmt.Fprintf(p, "\n<sub>%s</sub>\n", about)
	return p.Bytes()
}

// causes tells why clusters failed, those with one cause together, and which webhooks are
// waited for.
func (p *page) causes(f *Fleet) {
	failures := f.Failures()
	if len(failures) > 0 {
		p.add("\n### What failed\n")
	}
	for i, g := range failures {
		var b strings.Builder
		fmt.Fprintf(&b, "\n**%s:** %s\n\n%s", words.Count(len(g.Clusters), "cluster"), escape(line(fleetview.CauseTitle(g.Cause))), fence(clean(g.Cause.Text)))
		fmt.Fprintf(&b, "\n%s\n", quote(fleetview.Names(g.Clusters), markdownCause))
		if hint := g.Clusters[0].Result.Hint; hint != "" {
			fmt.Fprintf(&b, "\n**Hint:** %s\n", quote(hint, markdownCause))
		}
		if i == markdownFailures || !p.add(b.String()) {
			fmt.Fprintf(p, "\n… and %s that have no room here.\n", words.Count(len(failures)-i, "more cause"))
			break
		}
	}
	for i, g := range f.Holds() {
		if i == 0 {
			p.add("\n### What waits\n\n")
		}
		p.add("- " + quote(fleetview.HoldText(g), markdownCause) + "\n")
	}
}

func waveRows(f *Fleet) [][]string {
	rows := fleetview.WaveRows(f.Execution)
	for i, w := range f.Waves {
		rows[i+1][1] = waveGlyphs[w.State] + " " + rows[i+1][1]
	}
	return rows
}

// undoneRows are the clusters on which the plan is not done, those that failed first.
func undoneRows(f *Fleet) [][]string {
	rows := [][]string{{"cluster", "wave", "state", "time", "note"}}
	for _, failed := range []bool{true, false} {
		for _, c := range f.Clusters {
			if c.State.Good() || (c.State == fleet.Failed) != failed {
				continue
			}
			rows = append(rows, []string{c.Name, c.Wave, fleetGlyphs[c.State] + " " + said(c.State), brief(fleetview.Took(c, f.Last)), fleetview.Note(c)})
		}
	}
	return rows
}
