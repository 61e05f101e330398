package report

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

var errBig = errors.New("release stack-7: timed out waiting for the condition: Deployment/stack-7/api: 0 of 3 replicas are ready")

// bigRun is a run of n steps, as a plan over many tenants has them: each with
// progress of some objects, every fifth with requests that a webhook held, every
// 40th after a retry, every 100th failed, some with logs.
func bigRun(n int) *timeline.Timeline {
	const lanes = 40 // steps at once
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var events []runner.Event
	tell := func(after time.Duration, e runner.Event) {
		e.Time = start.Add(after)
		events = append(events, e)
	}
	infos := make([]runner.StepInfo, n)
	for i := range infos {
		infos[i] = runner.StepInfo{Name: fmt.Sprintf("tenant-%04d-%s", i/4, []string{"namespace", "secrets", "operator", "workload"}[i%4]), Kind: []string{"apply", "apply", "helm", "helm"}[i%4], Group: "tenants", TimeoutSeconds: 600}
		if i%4 > 0 {
			infos[i].Needs = []string{infos[i-1].Name}
		}
	}
	tell(0, runner.Event{Type: runner.TypePlan, Version: 1, Plan: "tenants", Message: "context prod, https://192.0.2.1:6443", Steps: infos})
	end := time.Duration(0)
	for i, s := range infos {
		at := time.Duration(i/lanes)*7*time.Second + time.Duration(i%lanes)*50*time.Millisecond
		step := func(after time.Duration, e runner.Event) { e.Step = s.Name; tell(at+after, e) }
		step(0, runner.Event{Type: runner.TypeState, State: runner.StateRunning, Attempt: 1, Attempts: 2})
		for k := range 6 {
			object := fmt.Sprintf("Deployment/tenant-%04d/app-%d", i/4, k)
			step(time.Second, runner.Event{Type: runner.TypeProgress, Object: object, Message: object + ": Deployment is available. Replicas: 3", Done: k, Total: 6})
		}
		attempt := 1
		if i%40 == 7 {
			step(2*time.Second, runner.Event{Type: runner.TypeState, State: runner.StateRetrying, Attempt: 1, Attempts: 2, Error: errBig.Error(), Hint: "look at the pods", DelaySeconds: 1})
			attempt = 2
			step(3*time.Second, runner.Event{Type: runner.TypeState, State: runner.StateRunning, Attempt: 2, Attempts: 2})
		}
		if i%5 == 2 {
			hook := func() *runner.Webhook {
				return &runner.Webhook{Name: "validate.operator.example.com", Service: "operator/webhook", Configuration: "operator", Cause: "no endpoints available for service \"webhook\"", Rung: "backed", State: "waiting"}
			}
			step(3*time.Second, runner.Event{Type: runner.TypeHeld, Object: fmt.Sprintf("Alert/tenant-%04d/a", i/4), Webhook: hook()})
			step(3*time.Second, runner.Event{Type: runner.TypeState, State: runner.StateHolding, Attempt: attempt, Attempts: 2})
			step(3*time.Second, runner.Event{Type: runner.TypeWebhook, Webhook: hook()})
			step(5*time.Second, runner.Event{Type: runner.TypeReleased, Object: fmt.Sprintf("Alert/tenant-%04d/a", i/4), Webhook: hook()})
			step(5*time.Second, runner.Event{Type: runner.TypeState, State: runner.StateRunning, Attempt: attempt, Attempts: 2})
		}
		done := runner.Event{Type: runner.TypeState, State: runner.StateSucceeded, Attempt: attempt, Attempts: 2}
		if i%100 == 42 {
			for k := range 40 {
				step(5*time.Second, runner.Event{Type: runner.TypeLog, Object: fmt.Sprintf("Pod/tenant-%04d/app-0 container app", i/4), Message: fmt.Sprintf("2026-01-02T03:04:05Z ERROR could not reach the database (%d): connection refused", k)})
			}
			done.State, done.Error, done.Hint = runner.StateFailed, errBig.Error(), "look at the pods of the Deployment: kubectl describe"
		}
		step(6*time.Second, done)
		end = max(end, at+6*time.Second)
	}
	slices.SortStableFunc(events, func(a, b runner.Event) int { return a.Time.Compare(b.Time) })
	tell(end, runner.Event{Type: runner.TypeDone, State: runner.StateFailed})
	return fold(events)
}

// tangledRun is a run of n steps that need each other in many ways.
func tangledRun(n int) *timeline.Timeline {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	random := rand.New(rand.NewPCG(1, 2))
	first := runner.Event{Time: start, Type: runner.TypePlan, Plan: "platform", Message: "context prod, https://192.0.2.1:6443"}
	words := []string{"cert-manager", "ingress", "external-secrets", "monitoring", "grafana", "policies", "database-operator", "queue", "login", "shop"}
	ends := make([]time.Duration, n)
	events := []runner.Event{}
	tell := func(at time.Duration, step string, e runner.Event) {
		e.Time, e.Step = start.Add(at), step
		events = append(events, e)
	}
	for i := range n {
		s := runner.StepInfo{Name: fmt.Sprintf("%s-%d", words[i%len(words)], i/len(words)), Kind: "helm", File: "plan.yaml", Line: 10 + 7*i}
		begin := time.Duration(0)
		for range min(i, random.IntN(4)) {
			k := random.IntN(i)
			if name := first.Steps[k].Name; !slices.Contains(s.Needs, name) {
				s.Needs = append(s.Needs, name)
				begin = max(begin, ends[k])
			}
		}
		if i == n-1 {
			s.Name, s.Finally, s.Needs, begin = "report", true, nil, slices.Max(ends)
		}
		first.Steps = append(first.Steps, s)
		ends[i] = begin + time.Duration(2+random.IntN(30))*time.Second
		tell(begin, s.Name, runner.Event{Type: runner.TypeState, State: runner.StateRunning, Attempt: 1, Attempts: 1})
		tell(ends[i], s.Name, runner.Event{Type: runner.TypeState, State: runner.StateSucceeded, Attempt: 1, Attempts: 1})
	}
	slices.SortStableFunc(events, func(a, b runner.Event) int { return a.Time.Compare(b.Time) })
	events = append(append([]runner.Event{first}, events...), runner.Event{Time: start.Add(slices.Max(ends)), Type: runner.TypeDone, State: runner.StateSucceeded})
	return fold(events)
}
