package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

// do is what a step does in a recorded run.
type do func(context.Context, runner.Reporter) error

func (f do) Run(ctx context.Context, r runner.Reporter) error { return f(ctx, r) }

// nap sleeps, or returns why ctx ended.
func nap(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// guarded is a chart whose operator needs 8 s until its webhook answers, with
// n objects that the webhook guards.
func guarded(n int) do {
	return func(ctx context.Context, r runner.Reporter) error {
		hook := runner.Webhook{Name: "gadget.lab.kplan.dev", Service: "demo/race-webhook", Cause: "no endpoints available"}
		r.Report(runner.Report{Type: runner.TypeProgress, Message: "installing chart race 0.1.0"})
		if err := nap(ctx, 400*time.Millisecond); err != nil {
			return err
		}
		for i := range n {
			w := hook
			r.Report(runner.Report{Type: runner.TypeHeld, Object: fmt.Sprintf("Gadget/demo/g%d", i+1), Webhook: &w})
		}
		stands := func(rung, cause string) {
			r.Report(runner.Report{Type: runner.TypeWebhook, Webhook: &runner.Webhook{
				Name: hook.Name, Service: hook.Service, Configuration: "race", Owner: "Helm release demo/race",
				Rung: rung, State: "waiting", Cause: cause,
			}})
		}
		stands("backed", "no endpoints; pod race-1 is being created")
		stands("backed", "0 of 1 endpoints ready; pod race-1 runs, but its container operator is not ready")
		if err := nap(ctx, 5*time.Second); err != nil {
			for i := range n { // the transport gives them up
				w := hook
				w.HeldSeconds, w.Sends = 2.6, 3
				r.Report(runner.Report{Type: runner.TypeReleased, Object: fmt.Sprintf("Gadget/demo/g%d", i+1), Webhook: &w, Error: err.Error()})
			}
			return err
		}
		stands("serving", "connection refused")
		refused := hook
		refused.Cause = "connection refused"
		r.Report(runner.Report{Type: runner.TypeHeld, Object: "Gadget/demo/g1", Webhook: &refused})
		if err := nap(ctx, 7*time.Second); err != nil {
			return err
		}
		for i := range n {
			w := refused
			w.Cause, w.HeldSeconds, w.Sends = "", 12+float64(i)/100, 2
			if i == 0 {
				w.Sends = 37
			}
			r.Report(runner.Report{Type: runner.TypeReleased, Object: fmt.Sprintf("Gadget/demo/g%d", i+1), Webhook: &w})
			if err := nap(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		r.Report(runner.Report{Type: runner.TypeResult, Message: "race 0.1.0 deployed", Revision: 1})
		return nil
	}
}

// waiting waits for pods and says so, more often than anybody wants to read.
func waiting(d time.Duration) do {
	return func(ctx context.Context, r runner.Reporter) error {
		for end := time.Now().Add(d); time.Now().Before(end); {
			r.Report(runner.Report{Type: runner.TypeProgress, Object: "Deployment/demo/web", Message: "1 of 3 replicas are ready", Done: 4, Total: 9})
			if err := nap(ctx, 300*time.Millisecond); err != nil {
				return err
			}
		}
		r.Report(runner.Report{Type: runner.TypeResult, Unchanged: true})
		return nil
	}
}

// late does f after a while: two steps that speak at once have no order.
func late(d time.Duration, f do) do {
	return func(ctx context.Context, r runner.Reporter) error {
		if err := nap(ctx, d); err != nil {
			return err
		}
		return f(ctx, r)
	}
}

func fails(err error) do {
	return func(ctx context.Context, r runner.Reporter) error {
		r.Report(runner.Report{Type: runner.TypeLog, Message: "line one\nline two \x1b[31mred\x1b[0m"})
		if e := nap(ctx, 1500*time.Millisecond); e != nil {
			return e
		}
		return err
	}
}

// stale waits for a webhook that never answers.
func stale(ctx context.Context, r runner.Reporter) error {
	w := runner.Webhook{Name: "old.example.com", Service: "gone/old", Cause: `service "old" not found`}
	r.Report(runner.Report{Type: runner.TypeHeld, Object: "ConfigMap/demo/c", Webhook: &w})
	if err := nap(ctx, 32*time.Second); err != nil {
		return err
	}
	end := w
	end.HeldSeconds, end.Sends = 32, 16
	err := &runner.TimeoutError{After: 32 * time.Second, For: `webhook "old.example.com"`, Last: w.Cause}
	r.Report(runner.Report{Type: runner.TypeReleased, Object: "ConfigMap/demo/c", Webhook: &end, Error: err.Error()})
	return runner.WithHint(err, "its Service is gone: delete the webhook configuration if its owner is gone too")
}

// restarts applies two objects while the API server restarts.
func restarts(ctx context.Context, r runner.Reporter) error {
	server := runner.Webhook{Name: runner.APIServer, Cause: "the API server starts or stops"}
	objects := []string{"ConfigMap/demo/a", "ConfigMap/demo/b"}
	for _, o := range objects {
		w := server
		r.Report(runner.Report{Type: runner.TypeHeld, Object: o, Webhook: &w})
	}
	if err := nap(ctx, 24*time.Second); err != nil {
		return err
	}
	for _, o := range objects {
		w := server
		w.HeldSeconds, w.Sends = 24, 9
		r.Report(runner.Report{Type: runner.TypeReleased, Object: o, Webhook: &w})
	}
	return nil
}

func step(name string, retries int, needs ...string) plan.Step {
	return plan.Step{
		Name: name, Needs: plan.Needs(needs...), Helm: &plan.Helm{},
		Retry: &plan.Retry{InstallRetries: retries, RetryDelaySeconds: new(30.0)},
	}
}

// on says which cluster a step works on.
func on(cluster string, s plan.Step) plan.Step {
	s.Cluster = cluster
	return s
}

// chatty is a Job whose pod repeats itself, says what GitHub's runner would take
// for commands, and more than anybody wants to read twice; then it fails.
func chatty(ctx context.Context, r runner.Reporter) error {
	says := func(object, text string) {
		r.Report(runner.Report{Type: runner.TypeLog, Object: object, Message: text})
	}
	const pod = "Pod/demo/migrate-x7 container migrate"
	says("", "warning: v1beta1 Widget is deprecated")
	says(pod, "connecting\n  ::error file=x::not a command\nsee ##[add-mask]secret")
	for range 12 {
		says(pod, "still connecting")
		if err := nap(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	says(pod, "refused\nrefused\nrefused\ngiving up")
	says("Pod/demo/migrate-x7", "Warning BackOff: Back-off restarting failed container")
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprintf("at frame %d", i))
	}
	says(pod, strings.Join(lines, "\n"))
	for range 3 {
		says(pod, "the end")
	}
	if err := nap(ctx, 11*time.Second); err != nil {
		return err
	}
	return runner.WithHint(errors.New("Job demo/migrate failed: BackoffLimitExceeded: 100% of ::pods:: failed"), "read the log of its pod")
}

// unsteady succeeds at the second attempt.
func unsteady() do {
	tries := 0
	return func(ctx context.Context, r runner.Reporter) error {
		if err := nap(ctx, 300*time.Millisecond); err != nil {
			return err
		}
		if tries++; tries%2 == 1 { // a test may run more than once
			return errors.New("the registry said: 503 Service Unavailable")
		}
		return nil
	}
}

// waitsForWebhooks is a gate: two webhooks of one Service stand at the same rung.
func waitsForWebhooks(ctx context.Context, r runner.Reporter) error {
	for _, name := range []string{"a.example.com", "b.example.com"} {
		r.Report(runner.Report{Type: runner.TypeWebhook, Webhook: &runner.Webhook{
			Name: name, Service: "demo/hook", Configuration: "hooks", Rung: "backed", State: "waiting",
			Cause:       `0 of 1 endpoints ready; pod hook-1 is in ImagePullBackOff, image "registry.example.com/hook:v1"`,
			Explanation: "the node cannot fetch the container's image",
		}})
	}
	if err := nap(ctx, 40*time.Second); err != nil {
		return err
	}
	return &runner.TimeoutError{After: 40 * time.Second, For: "2 webhooks to answer", Last: "backed: 0 of 1 endpoints ready"}
}

// onFile is a plan as a file has it; 11 of its steps fail in the same way.
const onFile = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: file}
steps:
  - name: migrate
    helm: {chart: ./migrate}
  - name: web
    retry: {install_retries: 2, retry_delay_seconds: 1}
    helm: {chart: ./web}
  - name: gate
    webhook: {service: demo/hook}
  - name: tenants
    for_each: [a, b, c, d, e, f, g, h, i, j, k]
    needs: [web]
    helm: {chart: ./tenant, release: "${{ each.key }}"}
`

// stepsOf reads the steps of a plan's file.
func stepsOf(text string) []plan.Step {
	p, err := load.Parse("deploy/plan.yaml", []byte(text), load.Options{})
	if err != nil {
		panic(err)
	}
	return p.Steps
}

// recordings are the runs under testdata/events.
var recordings = map[string]struct {
	steps  []plan.Step
	do     map[string]do
	cancel time.Duration
}{
	"race": {
		steps: []plan.Step{step("race", 3), step("race-webhook", 1, "race"), step("after", 1, "race-webhook")},
		do:    map[string]do{"race": guarded(1), "race-webhook": waiting(time.Second), "after": guarded(3)},
	},
	"failure": {
		steps: []plan.Step{step("web", 1), step("chart", 2), step("needs-chart", 1, "chart"), step("stale", 1), step("evil", 1)},
		do: map[string]do{
			"web":   waiting(25 * time.Second),
			"chart": late(100*time.Millisecond, fails(runner.WithHint(errors.New("chart oci://example.com/race: not found"), "check the chart's address and version"))),
			"stale": late(250*time.Millisecond, stale),
			"evil":  late(400*time.Millisecond, fails(runner.Permanent(errors.New("admission webhook \"x\" denied: \x1b]0;title\a\x1b[2Jsecond\r\nline\u202e")))),
		},
	},
	"server": {
		steps: []plan.Step{step("maps", 1)},
		do:    map[string]do{"maps": restarts},
	},
	"stages": {
		steps: []plan.Step{
			on("regional", step("operator", 2)), on("regional", step("address", 1, "operator")),
			on("child", plan.Step{Name: "agent", Needs: plan.Needs("address"), Helm: &plan.Helm{}, Retry: &plan.Retry{
				InstallRetries: 3, RetryDelaySeconds: new(5.0), Multiplier: 2, On: []plan.RetryOn{plan.RetryNetwork},
			}}),
			on("child", plan.Step{Name: "dashboards", Helm: &plan.Helm{}, Skip: "not picked by --tags core"}),
			on("child", plan.Step{Name: "rollback", Needs: []plan.Need{{Step: "agent", On: plan.NeedFailure}}, Helm: &plan.Helm{}}),
			on("child", plan.Step{Name: "report", Last: true, Helm: &plan.Helm{}}),
		},
		do: map[string]do{
			"operator": waiting(2 * time.Second),
			"address": func(_ context.Context, r runner.Reporter) error {
				r.Report(runner.Report{
					Type: runner.TypeOutputs, Sensitive: []string{"token"},
					Outputs: map[string]any{"host": "a.example.com", "ports": []any{80, 443}, "token": "t0p"},
				})
				return nil
			},
			"agent":    fails(errors.New("t0p is no token")),
			"rollback": waiting(time.Second),
			"report":   waiting(time.Second),
		},
	},
	"file": {
		steps: stepsOf(onFile),
		do: map[string]do{
			"migrate": late(20*time.Millisecond, chatty), "web": late(50*time.Millisecond, unsteady()), "gate": late(137*time.Millisecond, waitsForWebhooks),
		},
	},
	"interrupt-finally": {
		steps:  []plan.Step{step("web", 1), {Name: "clean", Last: true, Helm: &plan.Helm{}}},
		do:     map[string]do{"web": waiting(25 * time.Second), "clean": waiting(time.Second)},
		cancel: 3100 * time.Millisecond, // not when it reports
	},
	"interrupt": {
		steps:  []plan.Step{step("race", 1), step("later", 1, "race")},
		do:     map[string]do{"race": guarded(2)},
		cancel: 3 * time.Second,
	},
}

// TestRecord plays the runs above; with -update it records them.
func TestRecord(t *testing.T) {
	for name, rec := range recordings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if rec.cancel > 0 {
					time.AfterFunc(rec.cancel, func() { cancel(&runner.Interrupted{Signal: os.Interrupt}) })
				}
				var out bytes.Buffer
				record := NewJSON(&out)
				r := runner.Runner{
					About:    "context \x1b[2Jdemo, https://192.0.2.1:6443",
					Redact:   func(s string) string { return strings.ReplaceAll(s, "t0p", "(sensitive)") },
					Parallel: 4, Observers: []runner.Observer{record},
					Resolve: func(s plan.Step) (runner.Action, error) {
						if s.Group != "" { // one after another
							return late(time.Duration(s.Name[len(s.Name)-2])*time.Millisecond, fails(errors.New("no quota is left"))), nil
						}
						return rec.do[s.Name], nil
					},
				}
				p := &plan.Plan{Metadata: plan.Metadata{Name: name}, Steps: rec.steps}
				_, _ = r.Run(ctx, p)
				require.NoError(t, record.Close())
				golden(t, filepath.Join("events", name+".jsonl"), out.Bytes())
			})
		})
	}
}
