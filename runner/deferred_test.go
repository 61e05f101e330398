package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

// parsePlan reads a plan as a file has it, below its head.
func parsePlan(t *testing.T, body string) *plan.Plan {
	t.Helper()
	p, err := load.Parse("plan.yaml", []byte("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: demo}\n"+body), load.Options{})
	require.NoError(t, err)
	return p
}

const lateSteps = `
steps:
  - name: gateway
    wait: {resource: service/gateway, for: create}
    outputs: {ip: {resource: service/gateway, jsonpath: "{.spec.clusterIP}"}}
  - name: dns
    needs: [gateway]
    wait: {resource: "pod/p-${{ steps.gateway.outputs.ip }}", for: create}
  - name: public
    needs: [dns]
    when: ${{ steps.gateway.outputs.ip != "none" }}
    wait: {resource: pod/a, for: create}
  - name: after
    needs: [public]
    wait: {resource: pod/a, for: create}
finally:
  - name: report
    needs: [{step: dns, "on": always}]
    wait: {resource: "pod/dns-${{ steps.dns.state }}", for: create}
`

// Who reads an output of a step that was skipped is told so.
func TestOutputOfSkippedStep(t *testing.T) {
	p := parsePlan(t, strings.Replace(lateSteps, "  - name: gateway\n", "  - name: gateway\n    when: false\n", 1))
	synctest.Test(t, func(t *testing.T) {
		r := runner.Runner{Resolve: func(plan.Step) (runner.Action, error) {
			return action(func(context.Context, runner.Reporter) error { return nil }), nil
		}}
		x, err := r.Run(t.Context(), p)
		require.Error(t, err)
		require.Contains(t, x.Step("dns").Error, `the step "gateway" was skipped, so it has no output "ip"`)
		require.Contains(t, x.Step("dns").Error, "ask has(steps.gateway.outputs.ip)")
	})
}

// A late step's action is made of what the run found out, when the step starts.
func TestLateSteps(t *testing.T) {
	for name, c := range map[string]struct {
		ip    any
		fails string
		seen  map[string]string // what steps wait for, of those that were made
		end   map[string]runner.State
	}{
		"known in time": {
			ip:   "10.0.0.1",
			seen: map[string]string{"gateway": "service/gateway", "dns": "pod/p-10.0.0.1", "public": "pod/a", "after": "pod/a", "report": "pod/dns-succeeded"},
			end: map[string]runner.State{
				"gateway": runner.StateSucceeded, "dns": runner.StateSucceeded, "public": runner.StateSucceeded,
				"after": runner.StateSucceeded, "report": runner.StateSucceeded,
			},
		},
		"a when that is false": {
			ip:   "none",
			seen: map[string]string{"gateway": "service/gateway", "dns": "pod/p-none", "after": "pod/a", "report": "pod/dns-succeeded"},
			end: map[string]runner.State{
				"gateway": runner.StateSucceeded, "dns": runner.StateSucceeded, "public": runner.StateSkipped,
				"after": runner.StateSucceeded, "report": runner.StateSucceeded,
			},
		},
		"a step that failed": {
			ip: "10.0.0.1", fails: "dns",
			seen: map[string]string{"gateway": "service/gateway", "dns": "pod/p-10.0.0.1", "after": "pod/a", "report": "pod/dns-failed"},
			end: map[string]runner.State{
				"gateway": runner.StateSucceeded, "dns": runner.StateFailed, "public": runner.StateBlocked,
				"after": runner.StateBlocked, "report": runner.StateSucceeded,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := make(chan [2]string, 10)
				r := runner.Runner{Parallel: 1, Resolve: func(s plan.Step) (runner.Action, error) {
					seen <- [2]string{s.Name, s.Wait.Resource}
					return action(func(_ context.Context, r runner.Reporter) error {
						if s.Name == c.fails {
							return errors.New("boom")
						}
						if s.Name == "gateway" {
							r.Report(runner.Report{Type: runner.TypeOutputs, Outputs: map[string]any{"ip": c.ip}})
						}
						return nil
					}), nil
				}}
				x, err := r.Run(t.Context(), parsePlan(t, lateSteps))
				require.Equal(t, c.fails == "", err == nil, "%v", err)
				close(seen)
				made := map[string]string{}
				for s := range seen {
					made[s[0]] = s[1]
				}
				if c.fails != "" {
					delete(c.seen, "after") // it is not late: it was made before the run
					require.Equal(t, "pod/a", made["after"])
					delete(made, "after")
				}
				require.Equal(t, c.seen, made)
				for name, state := range c.end {
					require.Equal(t, state, x.Step(name).State, name)
				}
				if skipped := x.Step("public"); skipped.State == runner.StateSkipped {
					require.Zero(t, skipped.Attempt, "it never ran")
					require.NotEmpty(t, skipped.Message)
				}
			})
		})
	}
}

const secretStep = `
vars: {token: {secret: {name: s, key: token}}}
steps:
  - name: a
    retry: {install_retries: 3, retry_delay_seconds: 1}
    wait: {resource: "pod/${{ vars.token }}", for: create}
`

// Each attempt asks the cluster anew.
func TestLateStepAsksForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		asked := 0
		var events recorder
		r := runner.Runner{
			Observers: []runner.Observer{&events},
			ReadInputs: func(_ context.Context, asks []plan.Input) (plan.Inputs, error) {
				require.Len(t, asks, 1)
				require.Equal(t, plan.FromSecret, asks[0].From)
				if asked++; asked == 1 {
					return nil, errors.New("the Secret is not there")
				}
				return plan.Inputs{asks[0]: []string{"", "", "one", "two"}[asked]}, nil
			},
			Resolve: func(s plan.Step) (runner.Action, error) {
				seen = append(seen, s.Wait.Resource)
				return action(func(context.Context, runner.Reporter) error {
					if asked == 2 {
						return errors.New("boom")
					}
					return nil
				}), nil
			},
		}
		_, err := r.Run(t.Context(), parsePlan(t, secretStep))
		require.NoError(t, err)
		require.Equal(t, []string{"pod/one", "pod/two"}, seen)
		var states []runner.State
		for _, e := range events {
			if e.Type == runner.TypeState {
				states = append(states, e.State)
			}
		}
		require.Equal(t, []runner.State{
			runner.StateRunning, runner.StateRetrying, runner.StateRunning, runner.StateRetrying, runner.StateRunning, runner.StateSucceeded,
		}, states)
	})
}

// What a late step turns out to be may be wrong: that is its error, with the place
// in the plan, and not worth another attempt when the answers are the run's own.
func TestLateStepThatIsFaulty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		r := runner.Runner{Resolve: func(plan.Step) (runner.Action, error) {
			made++
			return action(func(_ context.Context, r runner.Reporter) error {
				r.Report(runner.Report{Type: runner.TypeOutputs, Outputs: map[string]any{"other": 1}})
				return nil
			}), nil
		}}
		p := parsePlan(t, lateSteps)
		x, err := r.Run(t.Context(), p)
		var faults document.Diagnostics
		require.ErrorAs(t, err, &faults)
		var failed *runner.StepError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "dns", failed.Step)
		require.Contains(t, x.Step("dns").Error, "plan.yaml:")
		require.Equal(t, 1, x.Step("dns").Attempt)
		require.Equal(t, runner.StateBlocked, x.Step("after").State)
	})
}

// A stop ends the inquiry of a late step too.
func TestLateStepIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(time.Second, func() { cancel(stop) })
		r := runner.Runner{
			ReadInputs: func(ctx context.Context, _ []plan.Input) (plan.Inputs, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			},
			Resolve: always(func(context.Context, runner.Reporter) error { return nil }),
		}
		x, err := r.Run(ctx, parsePlan(t, secretStep))
		require.ErrorIs(t, err, stop)
		require.Equal(t, runner.StateCancelled, x.Step("a").State)
	})
}
