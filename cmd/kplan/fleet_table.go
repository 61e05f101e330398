package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inquiry"
)

// show writes to stdout which clusters are in which waves, and their values.
func (o *fleetPlanOptions) show(f *freeze.Frozen, answers []inquiry.Answer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "fleet %s: plan %s on %s in %s\n", f.Fleet, f.Plan, clusterCount(len(f.Clusters)), words.Count(len(f.Waves), "wave"))
	same, differ := valuesOf(f.Clusters)
	for _, name := range same {
		fmt.Fprintf(&b, "  %s: %s on all of them\n", name, shownValue(f.Clusters[0].Vars[name]))
	}
	bold := func(s string) string { return s }
	if o.colour(o.stdout) {
		bold = func(s string) string { return "\x1b[1m" + s + "\x1b[0m" }
	}
	known := map[string]*inquiry.Answer{}
	for i := range answers {
		known[answers[i].Cluster.Name] = &answers[i]
	}
	for _, w := range f.Waves {
		fmt.Fprintf(&b, "\n%s %s\n", bold("wave "+w.Name+":"), waveWords(w))
		rows := [][]string{append([]string{"  CLUSTER"}, headings(answers != nil, differ)...)}
		for _, c := range f.Wave(w.Name) {
			rows = append(rows, rowOf(c, answers != nil, known[c.Name], differ))
		}
		if len(rows) > 1 {
			b.WriteString(words.Table(rows, nil))
		}
	}
	b.WriteByte('\n')
	if text := budgetWords(f.Limits); text != "" {
		fmt.Fprintf(&b, "budget: %s\n", text)
	}
	fmt.Fprintf(&b, "engine %s, digest %s\n", f.Engine, f.Digest)
	_, err := fmt.Fprint(o.stdout, o.cleanTable(b.String()))
	return err
}

// cleanTable takes out of a text what a terminal might obey, but for the colours of show.
func (o *fleetPlanOptions) cleanTable(text string) string {
	text = o.secrets().Text(text)
	if o.colour(o.stdout) {
		return text
	}
	return words.Clean(text)
}

func headings(asked bool, vars []string) []string {
	var all []string
	if asked {
		all = append(all, "KUBERNETES")
	}
	for _, name := range vars {
		all = append(all, words.Line(strings.ToUpper(name)))
	}
	return all
}

func rowOf(c fleet.Cluster, asked bool, a *inquiry.Answer, vars []string) []string {
	row := []string{"  " + words.Line(c.Name)}
	if asked {
		switch {
		case a == nil || a.Err != nil && a.Version == "":
			row = append(row, "no answer")
		case !a.Good():
			row = append(row, words.Join(", ", words.Line(a.Version), "not ready"))
		default:
			row = append(row, words.Line(a.Version))
		}
	}
	for _, name := range vars {
		row = append(row, shownValue(c.Vars[name]))
	}
	return row
}

// waveWords says what a wave does.
func waveWords(w fleet.WaveInfo) string {
	text := clusterCount(w.Clusters)
	if w.Clusters > 1 {
		text += fmt.Sprintf(", %s at once", thousands(min(w.Parallel, w.Clusters)))
	}
	switch {
	case w.MaxFailures > 0:
		text += fmt.Sprintf(", %s may fail", thousands(w.MaxFailures))
	case w.Clusters > 0:
		text += ", none may fail"
	}
	if w.Approve {
		text += ", waits for approval"
	}
	if w.SoakSeconds > 0 {
		text += ", " + words.Exact(time.Duration(w.SoakSeconds*float64(time.Second))) + " before the next"
	}
	return text
}

// budgetWords says how many clusters may fail of what in all waves together.
func budgetWords(l fleet.Limits) string {
	var parts []string
	if l.SameCause != nil {
		parts = append(parts, "at most "+thousands(*l.SameCause)+" may fail of one cause")
	}
	if l.Unreachable != nil {
		parts = append(parts, "at most "+thousands(*l.Unreachable)+" may be out of reach")
	}
	return strings.Join(parts, ", ")
}

// valuesOf are the names of the variables that have the same value on all clusters, and of
// the others.
func valuesOf(clusters []fleet.Cluster) (same, differ []string) {
	names := map[string]bool{}
	for _, c := range clusters {
		for name := range c.Vars {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		first, has := clusters[0].Vars[name]
		if has && !slices.ContainsFunc(clusters, func(c fleet.Cluster) bool { return !reflect.DeepEqual(c.Vars[name], first) }) {
			same = append(same, name)
		} else {
			differ = append(differ, name)
		}
	}
	return same, differ
}

// shownValue is a value in a cell.
func shownValue(v any) string {
	const widest = 40
	text, isText := v.(string)
	switch {
	case v == nil:
		return "-"
	case !isText:
		b, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		text = string(b)
	case text == "":
		return `""`
	}
	return words.Cut(words.Line(text), widest, "…")
}

func clusterCount(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return thousands(n) + " clusters"
}

// thousands writes a number with commas: 1,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// asking shows on stderr how many clusters have answered: on a terminal a line that changes,
// elsewhere a line for each hundred.
type asking struct {
	*app
	all      int
	terminal bool
}

func newAsking(a *app, all int) *asking {
	return &asking{a, all, tty.Is(a.stderr)}
}

// asked says that so many have answered.
func (p *asking) asked(done int) {
	text := fmt.Sprintf("asked %s of %s", thousands(done), thousands(p.all))
	switch {
	case p.terminal:
		fmt.Fprintf(p.stderr, "\r%s", text)
	case done%100 == 0 || done == p.all && p.all > 100:
		fmt.Fprintln(p.stderr, text)
	}
}

// close takes the line away.
func (p *asking) close() {
	if p.terminal {
		fmt.Fprint(p.stderr, "\r\x1b[K")
	}
}
