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
			return o.Paint(colours[runner.State(cell)], cell+pad)
		}
		return cell + pad
	}))
	if told := races(x); len(told) > 0 {
		fmt.Fprintln(w)
		for _, line := range told[:min(len(told), mostRaces)] {
			fmt.Fprintln(w, o.Clean(line))
		}
		if more := len(told) - mostRaces; more > 0 {
			fmt.Fprintf(w, "and %s; -o json has all\n", words.Count(more, "more webhook"))
		}
	}
	fmt.Fprintf(w, "\nplan %s %s in %s: %s\n", o.Clean(x.Plan()), o.Paint(colours[x.State()], string(x.State())), words.Brief(x.Elapsed()), counts(x))
	for _, s := range x.Failed() {
		Problem(w, o, fmt.Sprintf("step %q: %s", s.Name, s.Error), s.Hint)
	}
	if x.Err() != "" && x.State() != runner.StateSucceeded {
		Problem(w, o, x.Err(), "")
	}
}

// mostRaces is how many webhooks that held requests the summary tells of.
const mostRaces = 5

// races tells of the webhooks that held requests, of those at one Service together.
func races(x *runner.Execution) []string {
	var groups [][]runner.Race
	for _, r := range x.Races() {
		i := slices.IndexFunc(groups, func(g []runner.Race) bool {
			return g[0].Cluster == r.Cluster && g[0].Service == r.Service && r.Service != ""
		})
		if i < 0 {
			groups = append(groups, []runner.Race{r})
			continue
		}
		groups[i] = append(groups[i], r)
	}
	lines := make([]string, len(groups))
	for i, g := range groups {
		lines[i] = Race(g...)
	}
	return lines
}

// Race says in one line what webhooks at one Service that could not answer would have cost.
func Race(all ...runner.Race) string {
	r := all[0]
	by := Holder(r.Webhook, fmt.Sprintf("webhook %q", r.Webhook))
	if len(all) > 1 {
		by = webhooksOf(len(all), r.Service)
	}
	for _, other := range all[1:] {
		r.Requests += other.Requests
		r.Failed += other.Failed
		r.Longest = max(r.Longest, other.Longest)
		if r.Admitted.IsZero() || !other.Admitted.IsZero() && other.Admitted.Before(r.Admitted) {
			r.Admitted, r.Saved, r.Delay = other.Admitted, other.Saved, other.Delay
		}
	}
	if r.Cluster != "" {
		by += " on " + r.Cluster
	}
	text := fmt.Sprintf("%s could not answer for %s (%s): ", by, words.Brief(r.Down()), words.Line(r.Cause))
	if r.Admitted.IsZero() {
		return text + words.Count(r.Requests, "request") + " given up"
	}
	text += words.Count(r.Requests, "request") + " held"
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d given up", r.Failed)
	} else if r.Saved > 0 {
		text += fmt.Sprintf(", answered %s before a retry every %s", words.Brief(r.Saved), words.Brief(r.Delay))
	}
	return text
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

// note says what its concurrency group and webhooks cost the step, or why it did not run.
func note(x *runner.Execution, s *runner.Step) string {
	if s.State == runner.StateSkipped || s.State == runner.StateBlocked {
		return Reason(x, s)
	}
	return words.Join("; ", holdNote(x, s), GroupWait(s, x.Last()))
}

// holdNote says how long requests of a step were held, and by whom; "" when none was.
func holdNote(x *runner.Execution, s *runner.Step) string {
	if len(s.Holds) == 0 {
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
