package ui

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// summarize writes the table of all steps, how the run ended, and once more
// what failed and what to do about it.
func summarize(w io.Writer, x *runner.Execution, o Options) {
	rows := [][]string{{"STEP", "STATE", "ATTEMPT", "REVISION", "TIME", "NOTE"}}
	for _, s := range x.Steps() {
		rows = append(rows, row(x, s, o))
	}
	if x.ManyClusters() {
		rows[0] = slices.Insert(rows[0], 2, "CLUSTER")
		for i, s := range x.Steps() {
			rows[i+1] = slices.Insert(rows[i+1], 2, o.Clean(cmp.Or(s.Cluster, "-")))
		}
	}
	fmt.Fprintln(w)
	fmt.Fprint(w, words.Table(rows, func(i, j int, cell, pad string) string {
		if i > 0 && j == 1 {
			return o.paint(colours[runner.State(cell)], cell+pad)
		}
		return cell + pad
	}))
	fmt.Fprintf(w, "\nplan %s %s in %s: %s\n", o.Clean(x.Plan()), o.paint(colours[x.State()], string(x.State())), words.Brief(x.Elapsed()), counts(x))
	for _, s := range x.Failed() {
		Problem(w, o, fmt.Sprintf("step %q: %s", s.Name, s.Error), s.Hint)
	}
	if x.Err() != "" && x.State() != runner.StateSucceeded {
		Problem(w, o, x.Err(), "")
	}
}

func row(x *runner.Execution, s *runner.Step, o Options) []string {
	attempt, revision, took := "-", "-", "-"
	if s.Attempt > 0 {
		attempt = fmt.Sprintf("%d/%d", s.Attempt, s.Attempts)
		took = words.Brief(s.Elapsed(x.Last()))
	}
	if s.Revision > 0 {
		revision = fmt.Sprint(s.Revision)
	}
	return []string{o.Clean(s.Name), string(s.State), attempt, revision, took, o.Clean(note(x, s))}
}

// outputs writes values that a step found for later ones, a line for each.
func outputs(values map[string]any) string {
	const most = 200
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := strings.Join(strings.Fields(words.Value(values[name])), " ")
		lines = append(lines, name+" = "+words.Cut(text, most, " …"))
	}
	return strings.Join(lines, "\n")
}

// note says what a webhook cost the step, or why it did not run.
func note(x *runner.Execution, s *runner.Step) string {
	switch {
	case s.State == runner.StateSkipped, s.State == runner.StateBlocked:
		return Reason(x, s)
	case len(s.Holds) == 0:
		return ""
	}
	by := make([]string, len(s.Holds))
	for i, h := range s.HoldsAt(x.Last()) {
		by[i] = fmt.Sprintf("%s (%s, longest %s)", Holder(h.Webhook, h.Webhook), words.Count(h.Requests, "request"), words.Brief(h.Longest))
	}
	who := strings.Join(by, ", ")
	if len(by) > 2 { // a row has no room for more
		who = fmt.Sprintf("%s and %d more webhooks", by[0], len(by)-1)
	}
	return fmt.Sprintf("held %s by %s", words.Brief(s.HoldTime(x.Last())), who)
}

// Reason says why a step did not run, or else what was last told of it.
func Reason(x *runner.Execution, s *runner.Step) string {
	if why := x.WhyBlocked(s.Name); s.State == runner.StateBlocked && len(why) > 0 {
		return "needs " + strings.Join(why, ", ") + ", which failed"
	}
	return s.Message
}

func counts(x *runner.Execution) string {
	n := x.Counts()
	var parts []string
	for _, s := range runner.States {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no steps")
}
