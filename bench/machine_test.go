package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// about says what was measured, on what, and how busy that was since start.
func about(b *testing.B, lab *labtest.Lab, installs int, start cpuTime) string {
	b.Helper()
	server := "of an unknown version"
	if v, err := lab.Clientset(b).Discovery().ServerVersion(); err == nil {
		server = v.GitVersion
	}
	text := fmt.Sprintf("%d installs, one after the other. Kubernetes %s; kplan and the prober ran on a machine with %s, built with %s",
		installs, server, machine(), strings.Fields(runtime.Version())[0])
	if share, ok := busyTime().since(start); ok {
		text += fmt.Sprintf("; its cores were busy %.0f %% of the time", 100*share)
	}
	return text + ".\n\n"
}

// machine describes this one.
func machine() string {
	all := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	var kib float64
	if _, err := fmt.Sscan(line("/proc/meminfo", "MemTotal:"), &kib); err == nil {
		all = append(all, fmt.Sprintf("%.0f GiB of memory", kib/(1<<20)))
	}
	if name := strings.Trim(line("/etc/os-release", "PRETTY_NAME="), `"`); name != "" {
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// cpuTime is what Linux counts of all cores since it started, in ticks.
type cpuTime struct{ idle, all float64 }

func busyTime() cpuTime { return parseCPUTime(line("/proc/stat", "cpu ")) }

// parseCPUTime reads user, nice, system, idle, iowait, irq, softirq and steal
// (proc(5)); guests are part of user.
func parseCPUTime(text string) cpuTime {
	var c cpuTime
	for i, field := range strings.Fields(text) {
		var n float64
		if _, err := fmt.Sscan(field, &n); err != nil || i > 7 {
			break
		}
		c.all += n
		if i == 3 || i == 4 {
			c.idle += n
		}
	}
	return c
}

// since gives the share of the time since start that the cores were busy; false
// where nothing is counted.
func (c cpuTime) since(start cpuTime) (float64, bool) {
	if c.all <= start.all {
		return 0, false
	}
	return 1 - (c.idle-start.idle)/(c.all-start.all), true
}

// line gives the rest of the line of a file that starts with a name; "" without.
func line(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func TestCPUTime(t *testing.T) {
	start := parseCPUTime(" 100 0 50 800 50 0 0 0 7 7")
	share, ok := parseCPUTime(" 160 0 60 820 55 0 0 5 9 9").since(start)
	require.True(t, ok)
	require.InDelta(t, 0.75, share, 1e-9)
	_, ok = start.since(start)
	require.False(t, ok)
}
