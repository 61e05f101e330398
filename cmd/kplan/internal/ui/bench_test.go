package ui

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/runner"
)

// BenchmarkDraw is what one event costs a renderer in a run of 2,000 steps; the
// run itself waits for none of it.
func BenchmarkDraw(b *testing.B) {
	const steps = 2000
	first := runner.Event{Type: runner.TypePlan, Version: 1, Plan: "big"}
	for i := range steps {
		first.Steps = append(first.Steps, runner.StepInfo{Name: fmt.Sprintf("step-%d", i), Kind: "helm"})
	}
	for name, d := range map[string]pump.Drawer[runner.Event]{
		"plain":  newPlain(io.Discard, Options{}),
		"github": newGitHub(io.Discard, Options{}),
		"json":   &jsonl{Sink: pump.Sink{Out: io.Discard}},
	} {
		b.Run(name, func(b *testing.B) {
			now := time.Unix(0, 0)
			d.Draw(first)
			n := 0
			for b.Loop() {
				n++
				now = now.Add(5 * time.Millisecond) // 200 a second
				e := runner.Event{Seq: n, Time: now, Step: fmt.Sprintf("step-%d", n%steps), Type: runner.TypeLog, Message: "a line", Object: "Pod/ns/p container c"}
				if n%4 == 0 {
					e.Type, e.State, e.Attempt, e.Attempts = runner.TypeState, runner.StateRunning, 1, 1
				}
				d.Draw(e)
				if n%200 == 0 {
					d.Tick(now)
				}
				d.Flush()
			}
		})
	}
}
