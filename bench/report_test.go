package bench

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The bars of many objects at once.
const (
	barSpread = time.Second
	barFlight = 3
)

// report is what all trials say, by the phase's name.
type report struct{ phases map[string][]trial }

// tools gives the trials of each tool, in the order of their first.
func tools(all []trial) [][]trial {
	var names []string
	by := map[string][]trial{}
	for _, t := range all {
		if by[t.tool] == nil {
			names = append(names, t.tool)
		}
		by[t.tool] = append(by[t.tool], t)
	}
	var out [][]trial
	for _, n := range names {
		out = append(out, by[n])
	}
	return out
}

// aboutPhases says on what some rivals were measured, and how busy that was since start.
func aboutPhases(b *testing.B, lab *ownLab, start cpuTime, took time.Duration, rivals ...string) string {
	b.Helper()
	server := "of an unknown version"
	if v, err := lab.Clientset(b).Discovery().ServerVersion(); err == nil {
		server = v.GitVersion
	}
	text := fmt.Sprintf("Kubernetes %s; %s; kplan, rivals and prober ran on a machine with %s, built with %s",
		server, versions(rivals...), machine(), strings.Fields(runtime.Version())[0])
	if share, ok := busyTime().since(start); ok {
		text += fmt.Sprintf("; its cores were busy %.0f %% of the %.0f minutes", 100*share, took.Minutes())
	}
	return text + ".\n\n"
}

// String writes the tables and the bars that were missed.
func (r report) String() string {
	rows := [][]string{{"phase, tool", "installs", "attempts", "revision", "first p50", "p99", "last p50", "p99", "calls in vain", "API requests"}}
	crowd := [][]string{{"200 objects", "first admitted → last, ms", "in flight before the first", "the same without each object's first request"}}
	var missed []string
	for _, p := range phases {
		if len(r.phases[p.name]) == 0 {
			continue
		}
		rows = append(rows, append([]string{p.about}, make([]string, len(rows[0])-1)...))
		for _, all := range tools(r.phases[p.name]) {
			rows = append(rows, phaseLine(all))
			if p.crowd {
				crowd = append(crowd, crowdLine(all))
			}
			if all[0].tool == (kplan{}).String() {
				missed = append(missed, missedBy(p, all)...)
			}
		}
	}
	text := markdown(rows)
	if len(crowd) > 1 {
		text += "\n" + markdown(crowd)
	}
	if len(missed) == 0 {
		return text + "\nkplan missed no bar.\n"
	}
	return text + "\nBars that kplan missed:\n\n- " + strings.Join(missed, "\n- ") + "\n"
}

// phaseLine is the row of one tool in one phase.
func phaseLine(all []trial) []string {
	done := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return t.err != nil })
	raced := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return !t.raced() })
	installs := fmt.Sprint(len(all))
	if len(done) < len(all) {
		installs = fmt.Sprintf("%d of %d done", len(done), len(all))
	}
	revision := span(all, func(t trial) int { return t.revision })
	if revision == "0" {
		revision = "" // a tool without Helm
	}
	cells := []string{"– " + all[0].tool, installs, span(all, func(t trial) int { return t.attempts }), revision}
	for _, of := range []func(trial) time.Duration{trial.first, trial.last} {
		sorted := durations(raced, of)
		for _, p := range []int{50, 99} {
			if len(sorted) == 0 {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, figure(percentile(sorted, p)))
		}
	}
	return append(cells, span(all, func(t trial) int { return t.vain }), span(all, func(t trial) int { return t.requests }))
}

func crowdLine(all []trial) []string {
	raced := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return !t.raced() })
	cells := []string{all[0].tool, "", "", ""}
	if len(raced) > 0 {
		cells[1] = figure(percentile(durations(raced, spread), 50)) + " (most " + figure(percentile(durations(raced, spread), 100)) + ")"
		cells[2] = span(raced, func(t trial) int { return t.flight })
		cells[3] = span(raced, func(t trial) int { return t.again })
	}
	return cells
}

func spread(t trial) time.Duration { return t.last() - t.first() }

func durations(all []trial, of func(trial) time.Duration) []time.Duration {
	var out []time.Duration
	for _, t := range all {
		out = append(out, of(t))
	}
	slices.Sort(out)
	return out
}

// span gives the least and the most of a number.
func span(all []trial, of func(trial) int) string {
	least, most := of(all[0]), of(all[0])
	for _, t := range all[1:] {
		least, most = min(least, of(t)), max(most, of(t))
	}
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d–%d", least, most)
}

// figure writes milliseconds, the large ones without a fraction.
func figure(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.0f", ms(d))
	}
	return fmt.Sprintf("%.1f", ms(d))
}

// missedBy names the bars that a phase's installs missed.
func missedBy(p phase, all []trial) []string {
	raced := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return !t.raced() })
	if len(raced) == 0 {
		return []string{p.about + ": no install met a race"}
	}
	var missed []string
	if n := len(all) - len(raced); n > 0 {
		missed = append(missed, fmt.Sprintf("%s: %d of %d installs failed or met no race", p.about, n, len(all)))
	}
	miss := func(name string, d, bar time.Duration) {
		if d > bar {
			missed = append(missed, fmt.Sprintf("%s: %s %s ms, the bar is %v", p.about, name, figure(d), bar))
		}
	}
	admitted := func(name string, of func(trial) time.Duration) {
		sorted := durations(raced, of)
		miss(name+" p50", percentile(sorted, 50), barP50)
		miss(name+" p99", percentile(sorted, 99), barP99)
	}
	admitted("first object", trial.first)
	if !p.crowd {
		admitted("last object that was sent before the floor", trial.lastWaited)
		return missed
	}
	miss("first admitted to last", percentile(durations(raced, spread), 100), barSpread)
	for _, t := range raced {
		if t.flight > barFlight {
			return append(missed, fmt.Sprintf("%s: %d requests in flight before the first success, the bar is %d", p.about, t.flight, barFlight))
		}
	}
	return missed
}

func TestReport(t *testing.T) {
	at := time.Now()
	one := func(tool string, p phase, after ...time.Duration) trial {
		t := trial{phase: p, tool: tool, attempts: 1, revision: 1, floor: floor{at: at}, traffic: traffic{requests: 100, vain: 4, flight: 4}}
		for _, d := range after {
			t.held, t.waited = append(t.held, at.Add(d)), append(t.waited, at.Add(d))
		}
		return t
	}
	quick, crowd := phases[0], phases[len(phases)-1]
	r := report{phases: map[string][]trial{
		quick.name: {one("kplan", quick, time.Millisecond, 50*time.Millisecond), one("rival", quick)},
		crowd.name: {one("kplan", crowd, time.Millisecond, 1500*time.Millisecond)},
	}}
	require.Contains(t, r.String(), "| – kplan ")
	require.Contains(t, r.String(), "| – rival ")
	require.Empty(t, missedBy(quick, r.phases[quick.name][:1]))
	require.Equal(t, []string{
		crowd.about + ": first admitted to last 1499 ms, the bar is 1s",
		crowd.about + ": 4 requests in flight before the first success, the bar is 3",
	}, missedBy(crowd, r.phases[crowd.name]))
}
