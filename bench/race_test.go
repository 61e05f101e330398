package bench

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
)

var contestants = flag.String("racers", ".", "a `pattern` for the names of the tools that BenchmarkRace lets race")

// comparison is the page that tells how kplan compares.
const comparison = "../docs/explanation/comparison.md"

// races are an operator that needs 8 s until it serves, with a certificate that is kept
// across renders and with one that each render makes anew.
var races = []phase{
	{name: "kept", about: "certificate kept across renders", objects: 10, values: kept + "listenDelay: 8s\n"},
	{name: "anew", about: "certificate made anew by each render (genCA)", objects: 10, values: "certificate: {mode: helm}\nlistenDelay: 8s\n"},
}

// BenchmarkRace lets each tool install one chart with an operator, its webhooks and ten
// guarded objects: plain, as people use it. It fails when kplan needs more than one
// attempt, or leaves more than one revision.
func BenchmarkRace(b *testing.B) {
	lab := findOwnLab(b)
	client, err := kubernetes.NewForConfig(apart(lab.config, "bench-watch"))
	require.NoError(b, err)
	start, began := busyTime(), time.Now()
	warm := try(b.Context(), b.TempDir(), lab, client, phases[0], kplan{tell: &events{}}, 0)
	require.NoError(b, warm.err) // the CRDs are there now, as kapp expects
	named := regexp.MustCompile(*contestants)
	with := slices.DeleteFunc(slices.Concat(racers(), fluxes(b, lab)), func(t tool) bool { return !named.MatchString(t.String()) })
	measured := map[string][]trial{}
	for b.Loop() {
		for _, p := range races {
			for _, with := range with {
				if slices.ContainsFunc(measured[p.name], func(t trial) bool { return t.tool == with.String() && t.err != nil }) {
					continue // one that does not converge is slow, and says all
				}
				t := try(b.Context(), b.TempDir(), lab, client, p, with, 0)
				measured[p.name] = append(measured[p.name], t)
				fmt.Fprintf(os.Stderr, "%s, %s: %s\n", p.name, t.tool, t)
				require.NoError(b, t.write(len(measured[p.name])))
				if _, ok := with.(kplan); ok {
					require.Empty(b, t.wrong())
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	text := aboutPhases(b, lab, start, time.Since(began), "helm", "helm4", "helmfile", "kapp", "helm-controller") + raceTable(with, measured)
	fmt.Printf("\n%s\n", text)
	if *update {
		require.NoError(b, rewrite(comparison, "race", text))
	}
}

// racers are kplan and its rivals but Flux, in the order of the table.
func racers() []tool {
	const pause = 2 * time.Second
	return []tool{
		kplan{tell: &events{}},
		repeated{name: "`helm upgrade --install`, each 2 s", once: helm("helm"), pause: pause},
		repeated{name: "the same, Helm 4", once: helm("helm4"), pause: pause},
		repeated{name: "`helmfile sync`, each 2 s", once: helmfile, pause: pause},
		checked(),
		kapp{},
	}
}

// raceTable has a line for each tool, and the figures of both races in it.
func raceTable(with []tool, measured map[string][]trial) string {
	rows := [][]string{{"tool"}}
	for range races {
		rows[0] = append(rows[0], "attempts", "revision", "last object late", "done after")
	}
	for _, with := range with {
		row := []string{with.String()}
		for _, p := range races {
			all := slices.Clone(measured[p.name])
			row = append(row, raceCells(slices.DeleteFunc(all, func(t trial) bool { return t.tool != with.String() }))...)
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// raceCells are the medians of a tool in one race.
func raceCells(all []trial) []string {
	cells := []string{"", "", "", ""}
	if len(all) == 0 {
		return cells
	}
	cells[0] = span(all, func(t trial) int { return t.attempts })
	if cells[1] = span(all, func(t trial) int { return t.revision }); cells[1] == "0" {
		cells[1] = "" // a tool without Helm
	}
	done := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return t.err != nil })
	if len(done) < len(all) {
		cells[2] = "never"
		cells[3] = fmt.Sprintf("not in %s", percentile(durations(all, lasted), 50))
		return cells
	}
	if raced := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return !t.raced() }); len(raced) > 0 {
		cells[2] = fmt.Sprintf("%.2f s", percentile(durations(raced, trial.last), 50).Seconds())
	}
	cells[3] = percentile(durations(done, lasted), 50).String()
	return cells
}

// lasted is how long an install took, in tenths of a second.
func lasted(t trial) time.Duration { return t.took.Round(100 * time.Millisecond) }

func TestRaceTable(t *testing.T) {
	at := time.Now()
	won := trial{tool: "kplan", attempts: 1, revision: 1, took: 12 * time.Second, floor: floor{at: at}, traffic: traffic{held: []time.Time{at.Add(40 * time.Millisecond)}, waited: []time.Time{at}}}
	lost := trial{tool: "kapp deploy", attempts: 3, took: 90 * time.Second, err: os.ErrDeadlineExceeded}
	text := raceTable(racers(), map[string][]trial{"kept": {won}, "anew": {lost}})
	require.Regexp(t, `\| kplan +\| +1 \| +1 \| +0\.04 s \| +12(\.0)?s \|( +\|){4}\n`, text)
	require.Regexp(t, `\| kapp deploy +\|( +\|){4} +3 \| +\| +never \| +not in 1m30s \|\n`, text)
}
