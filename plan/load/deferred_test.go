package load_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

const latePlan = head + `
vars:
  token: {secret: {namespace: kube-system, name: s, key: token}}
  port: {config_map: {name: c, key: port}, type: integer, default: 80}
steps:
  - name: lb
    wait: {resource: service/lb, for: create}
    outputs: {ip: {resource: service/lb, jsonpath: "{.status.ip}"}, pass: {resource: secret/x, jsonpath: "{.data.p}"}}
  - name: group
    for_each: [a, b-c]
    wait: {resource: "pod/${{ each.key }}", for: create}
  - name: app
    needs: [lb, group]
    when: ${{ steps.lb.state == "succeeded" && steps.group.b-c.state != "failed" }}
    timeout: 3m
    helm:
      chart: oci://r.example/a
      version: ${{ steps.lb.outputs.ip }}
      values: {token: "Bearer ${{ vars.token }}", port: "${{ vars.port }}", known: 1, has: "${{ has(steps.lb.outputs.pass) }}"}
`

func lateStep(t *testing.T) plan.Step {
	t.Helper()
	p, err := load.Parse("p.yaml", []byte(latePlan), load.Options{})
	require.NoError(t, err)
	require.Nil(t, p.Steps[0].Deferred())
	return p.Steps[3]
}

// A step says what it wants to know; what it knows already is there.
func TestLate(t *testing.T) {
	s := lateStep(t)
	require.Equal(t, []plan.Input{
		{Step: "lb"},
		{Step: "group[b-c]"},
		{Step: "lb", Output: "pass", Sensitive: true},
		{From: plan.FromConfigMap, Key: plan.KeyRef{Name: "c", Key: "port"}, Optional: true},
		{From: plan.FromSecret, Key: plan.KeyRef{Namespace: "kube-system", Name: "s", Key: "token"}, Sensitive: true},
		{Step: "lb", Output: "ip"},
	}, s.Deferred())
	require.Nil(t, s.When)
	require.Equal(t, &plan.Helm{Chart: "oci://r.example/a", Values: map[string]any{"known": int64(1)}}, s.Helm)
}

// answers are what the step wants to know, with some of it changed.
func answers(s plan.Step, change map[plan.Input]any) plan.Inputs {
	known := plan.Inputs{}
	for _, a := range s.Deferred() {
		switch {
		case a.Step != "" && a.Output == "":
			known[a] = "succeeded"
		case a.Step != "":
			known[a] = "10.0.0.1"
		default:
			known[a] = "8080"
		}
	}
	for a, v := range change {
		if known[a] = v; v == nil {
			delete(known, a)
		}
	}
	return known
}

// With the answers a step has all of its fields, of their own types, and what it
// was before is unchanged.
func TestBind(t *testing.T) {
	s := lateStep(t)
	got, err := s.Bind(answers(s, nil))
	require.NoError(t, err)
	require.Equal(t, &plan.Helm{
		Chart: "oci://r.example/a", Version: "10.0.0.1",
		Values: map[string]any{"token": "Bearer 8080", "port": int64(8080), "known": int64(1), "has": true},
	}, got.Helm)
	require.Equal(t, true, got.When)
	require.Nil(t, got.Deferred())
	require.Equal(t, s.Name, got.Name)
	require.Equal(t, s.Needs, got.Needs)
	require.Equal(t, s.Timeout, got.Timeout)
	require.Empty(t, s.Helm.Version)

	// An output that is not there is asked for with has; a key that the cluster does
	// not have gives the default.
	got, err = s.Bind(answers(s, map[plan.Input]any{
		{Step: "lb", Output: "pass", Sensitive: true}:                                        nil,
		{From: plan.FromConfigMap, Key: plan.KeyRef{Name: "c", Key: "port"}, Optional: true}: nil,
	}))
	require.NoError(t, err)
	require.Equal(t, false, got.Helm.Values["has"])
	require.Equal(t, int64(80), got.Helm.Values["port"])
}

// When turns out false: the step is skipped, whatever else is not known.
func TestBindSkips(t *testing.T) {
	s := lateStep(t)
	got, err := s.Bind(plan.Inputs{{Step: "lb"}: "failed", {Step: "group[b-c]"}: "failed"})
	require.NoError(t, err)
	require.Equal(t, "when is false", got.Skip)
	require.Equal(t, false, got.When)
}

// Faults of a deferred step are told as those of the file are, without secrets.
func TestBindFaults(t *testing.T) {
	s := lateStep(t)
	_, err := s.Bind(answers(s, map[plan.Input]any{
		{Step: "lb", Output: "ip"}: nil,
		{From: plan.FromConfigMap, Key: plan.KeyRef{Name: "c", Key: "port"}, Optional: true}: "s3cret",
	}))
	var ds document.Diagnostics
	require.True(t, errors.As(err, &ds))
	require.Contains(t, err.Error(), `p.yaml:21:`)
	require.Contains(t, err.Error(), `the step "lb" gave no output "ip"`)

	// A value of the wrong type for its field.
	_, err = s.Bind(answers(s, map[plan.Input]any{{Step: "lb", Output: "ip"}: map[string]any{"a": int64(1)}}))
	require.ErrorContains(t, err, "expected text, got a mapping")
}

// A step with nothing to do has succeeded, so that a plan does the same when it is
// run again; changed tells the difference.
func TestStates(t *testing.T) {
	p, err := load.Parse("p.yaml", []byte(head+`
steps:
  - {name: a, wait: {resource: pod/x, for: create}}
  - name: b
    needs: [{step: a, on: always}]
    description: ${{ steps.a.state }} ${{ steps.a.changed }} ${{ steps.a.state in ["succeeded", "failed"] }}
    wait: {resource: pod/x, for: create}
`), load.Options{})
	require.NoError(t, err)
	for state, want := range map[string]string{
		"succeeded": "succeeded true true", "unchanged": "succeeded false true", "skipped": "skipped false false",
		"failed": "failed true true", "blocked": "blocked false false", "cancelled": "cancelled true false",
	} {
		got, err := p.Steps[1].Bind(plan.Inputs{{Step: "a"}: state})
		require.NoError(t, err)
		require.Equal(t, want, got.Description)
	}
}

// Steps of one plan are bound at the same time.
func TestBindTogether(t *testing.T) {
	s := lateStep(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			got, err := s.Bind(answers(s, nil))
			if err != nil || got.Helm.Version != "10.0.0.1" {
				t.Error(got, err)
			}
		})
	}
	all.Wait()
}

// What deferred values expressions use is checked when the file is read.
func TestLateTypes(t *testing.T) {
	src := strings.Replace(latePlan, `== "succeeded"`, `== 1`, 1)
	_, err := load.Parse("p.yaml", []byte(src), load.Options{})
	require.ErrorContains(t, err, "p.yaml:17:30: == cannot be used on (string, int)")
}
