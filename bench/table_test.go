package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The bars of an admission after the floor. They are judged when there are
// enough installs for the word percentile.
const (
	barP50 = 60 * time.Millisecond
	barP99 = 300 * time.Millisecond
	enough = 30
)

// table is what all installs say together.
type table struct {
	installs int
	times    []times
	counts   []counts
}

// times is one row of durations, sorted.
type times struct {
	unit string // prefix of the benchmark's metrics; none are reported without
	name string
	bars bool
	all  []time.Duration
}

// counts is one row of numbers, sorted.
type counts struct {
	name string
	all  []int
}

// tabulate makes the table of installs; none of them may lack a measurement.
func tabulate(done []install) table {
	durations := func(of func(install) time.Duration) []time.Duration {
		var all []time.Duration
		for _, i := range done {
			all = append(all, of(i))
		}
		return slices.Sorted(slices.Values(all))
	}
	numbers := func(of func(install) []int) []int {
		var all []int
		for _, i := range done {
			all = append(all, of(i)...)
		}
		return slices.Sorted(slices.Values(all))
	}
	return table{
		installs: len(done),
		times: []times{
			{"first", "first held object admitted, after the floor", true, durations(install.first)},
			{"last", "last held object admitted, after the floor", true, durations(install.last)},
			{"readiness", "before it: webhook listens → pod is Ready (readiness tick)", false, durations(func(i install) time.Duration { return i.ready.Sub(i.listening) })},
			{"", "pod is Ready → EndpointSlice is ready (controller)", false, durations(func(i install) time.Duration { return i.backed.Sub(i.ready) })},
			{"sync", "EndpointSlice is ready → floor (kube-proxy's sync)", false, durations(func(i install) time.Duration { return i.at.Sub(i.backed) })},
			{"listening-to-floor", "all of it: webhook listens → floor", false, durations(func(i install) time.Duration { return i.at.Sub(i.listening) })},
			{"", "strictest: last refused dry-run → first held object admitted", false, durations(func(i install) time.Duration { return i.released[0].Time.Sub(i.refused) })},
		},
		counts: []counts{
			{"attempts", numbers(func(i install) []int { return []int{i.attempts} })},
			{"Helm revision", numbers(func(i install) []int { return []int{i.revision} })},
			{"held requests per install", numbers(func(i install) []int { return []int{len(i.released)} })},
			{"sends per held request, the first and the last one included", numbers(install.sends)},
			{"kplan's calls that reached the webhook (two per object)", numbers(func(i install) []int { return []int{i.calls} })},
			{"the prober's dry-runs, all", numbers(func(i install) []int { return []int{len(i.answers)} })},
		},
	}
}

// sends tells of each held request how often it was sent.
func (i install) sends() []int {
	var all []int
	for _, e := range i.released {
		all = append(all, e.Webhook.Sends)
	}
	return all
}

// percentile is the nearest rank: the smallest value that p percent of all do
// not exceed.
func percentile[T any](sorted []T, p int) T {
	rank := (p*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// report hands the figures to the benchmark.
func (t table) report(b *testing.B) {
	b.Helper()
	for _, row := range t.times {
		if row.unit == "" {
			continue
		}
		b.ReportMetric(ms(percentile(row.all, 50)), row.unit+"-p50-ms")
		if row.bars {
			b.ReportMetric(ms(percentile(row.all, 99)), row.unit+"-p99-ms")
		}
	}
}

// missed names the bars that were missed.
func (t table) missed() []string {
	var all []string
	for _, row := range t.times {
		if t.installs < enough || !row.bars {
			continue
		}
		if d := percentile(row.all, 50); d > barP50 {
			all = append(all, fmt.Sprintf("%s: p50 %.1f ms, the bar is %v", row.name, ms(d), barP50))
		}
		if d := percentile(row.all, 99); d > barP99 {
			all = append(all, fmt.Sprintf("%s: p99 %.1f ms, the bar is %v", row.name, ms(d), barP99))
		}
	}
	return all
}

// String writes Markdown that can be read as it is.
func (t table) String() string {
	rows := [][]string{{"ms", "p50", "p90", "p99", "max"}}
	for _, row := range t.times {
		cells := []string{row.name}
		for _, p := range []int{50, 90, 99, 100} {
			cells = append(cells, fmt.Sprintf("%.1f", ms(percentile(row.all, p))))
		}
		rows = append(rows, cells)
		if row.unit == "last" {
			rows = append(rows, []string{"the bar of both", fmt.Sprintf("≤ %.0f", ms(barP50)), "", fmt.Sprintf("≤ %.0f", ms(barP99)), ""})
		}
	}
	text := markdown(rows)
	rows = [][]string{{"number", "least", "median", "most"}}
	for _, row := range t.counts {
		rows = append(rows, []string{
			row.name,
			fmt.Sprint(row.all[0]), fmt.Sprint(percentile(row.all, 50)), fmt.Sprint(row.all[len(row.all)-1]),
		})
	}
	return text + "\n" + markdown(rows)
}

// markdown writes a table, the first row as its head, columns aligned.
func markdown(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for c, cell := range row {
			width[c] = max(width[c], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for r, row := range rows {
		for c, cell := range row {
			pad := strings.Repeat(" ", width[c]-len([]rune(cell)))
			if c == 0 {
				out.WriteString("| " + cell + pad + " |")
			} else {
				out.WriteString(" " + pad + cell + " |")
			}
		}
		out.WriteString("\n")
		if r == 0 {
			for c, w := range width {
				if c == 0 {
					out.WriteString("|" + strings.Repeat("-", w+2) + "|")
				} else {
					out.WriteString(strings.Repeat("-", w+1) + ":|")
				}
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func TestPercentile(t *testing.T) {
	thirty := make([]int, 30)
	for i := range thirty {
		thirty[i] = i + 1
	}
	require.Equal(t, 15, percentile(thirty, 50))
	require.Equal(t, 27, percentile(thirty, 90))
	require.Equal(t, 30, percentile(thirty, 99))
	require.Equal(t, 30, percentile(thirty, 100))
	require.Equal(t, 7, percentile([]int{7}, 50))
}

func TestBars(t *testing.T) {
	rows := func(n int, slowest time.Duration) table {
		all := make([]time.Duration, n)
		all[n-1] = slowest
		return table{installs: n, times: []times{{name: "admitted", bars: true, all: all}, {name: "beside it", all: all}}}
	}
	require.Empty(t, rows(30, 300*time.Millisecond).missed())
	require.Equal(t, []string{"admitted: p99 300.5 ms, the bar is 300ms"}, rows(30, 300500*time.Microsecond).missed())
	require.Empty(t, rows(3, time.Second).missed(), "three installs have no percentiles")
}

func TestMarkdown(t *testing.T) {
	require.Equal(t, `| ms    |  p50 |
|-------|-----:|
| a → b | 10.5 |
| c     |    1 |
`, markdown([][]string{{"ms", "p50"}, {"a → b", "10.5"}, {"c", "1"}}))
}
