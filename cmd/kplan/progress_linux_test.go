package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

const (
	benchSteps = 2000
	benchLane  = 8
	// benchRest is how long a step lasts: eight lanes of steps with three events each
	// make 200 events a second.
	benchRest = 3 * benchLane * time.Second / 200
)

// BenchmarkProgress runs 2,000 steps whose events come 200 a second, shown in each
// mode in turn, and compares the run's wall time with that of quiet. The bar is one
// percent. CPU time is the whole process's.
func BenchmarkProgress(b *testing.B) {
	modes := []ui.Mode{ui.Quiet, ui.Plain, ui.JSON, ui.GitHub, ui.TTY}
	wall, cpu := map[ui.Mode]time.Duration{}, map[ui.Mode]time.Duration{}
	for b.Loop() {
		for _, m := range modes {
			before, start := spent(b), time.Now()
			showRun(b, m)
			wall[m] += time.Since(start)
			cpu[m] += spent(b) - before
		}
	}
	quiet := wall[ui.Quiet].Seconds()
	b.ReportMetric(0, "ns/op") // of no meaning: the modes lie side by side
	b.ReportMetric(quiet/float64(b.N), "quiet-wall-s")
	for _, m := range modes {
		b.ReportMetric(100*(wall[m].Seconds()/quiet-1), string(m)+"-over-%")
		b.ReportMetric(100*cpu[m].Seconds()/wall[m].Seconds(), string(m)+"-cpu-%")
	}
}

// pause is an action that reports once and takes its time.
type pause struct{}

func (pause) Run(ctx context.Context, r runner.Reporter) error {
	r.Report(runner.Report{Type: runner.TypeProgress, Message: "waiting for something", Done: 1, Total: 2})
	select {
	case <-time.After(benchRest):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// showRun runs the steps once, on a terminal of its own where the mode wants one.
// The time to close the display is part of it.
func showRun(b *testing.B, m ui.Mode) {
	b.Helper()
	p := &plan.Plan{Metadata: plan.Metadata{Name: "bench"}}
	for i := range benchSteps {
		p.Steps = append(p.Steps, plan.Step{Name: fmt.Sprintf("step-%d", i), Wait: &plan.Wait{}})
	}
	a := newApp("kplan", strings.NewReader(""), io.Discard, new(bytes.Buffer))
	if m == ui.TTY {
		a.stdin, a.stderr = openTerminal(b)
	}
	o := &runOptions{app: a, progress: string(m)}
	r := runner.Runner{Parallel: benchLane, Resolve: func(plan.Step) (runner.Action, error) { return pause{}, nil }}
	x, err := o.observe(b.Context(), &r, p)
	require.NoError(b, err)
	require.Equal(b, benchSteps, x.Counts()[runner.StateSucceeded])
}

// openTerminal gives both ends of a terminal's line to the program; somebody reads
// what it shows until the benchmark ends.
func openTerminal(b *testing.B) (in, out *os.File) {
	b.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(b, err)
	require.NoError(b, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(b, err)
	require.NoError(b, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}))
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(b, err)
	read := make(chan struct{})
	go func() { // ends when the last end of the line is closed
		defer close(read)
		_, _ = io.Copy(io.Discard, master)
	}()
	b.Cleanup(func() {
		require.NoError(b, slave.Close())
		<-read
		require.NoError(b, master.Close())
	})
	return slave, slave
}

func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
