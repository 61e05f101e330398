package diagnosis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// at is a webhook of Service ns/s whose lowest missing rung is r.
func at(r webhook.Reading, owner webhook.Owner) survey.Status {
	e := webhook.Entry{Kind: webhook.Validating, Configuration: "c", Name: "w", Owner: owner}
	e.Client.Service = &admissionv1.ServiceReference{Namespace: "ns", Name: "s"}
	return survey.Status{Entry: e, Ladder: webhook.Ladder{{Rung: webhook.Configured, State: webhook.Ready}, r}}
}

// stale is a webhook of Service ns/s that somebody left behind before it was trusted.
func stale(owner webhook.Owner) survey.Status {
	st := at(webhook.Reading{Rung: webhook.Trusted, State: webhook.Waiting, Reason: "no CA bundle"}, owner)
	st.Ladder = append(st.Ladder,
		webhook.Reading{Rung: webhook.Routed, State: webhook.Waiting, Reason: "no Service"},
		webhook.Reading{Rung: webhook.Backed, State: webhook.Waiting, Reason: "no endpoints"})
	return st
}

// A webhook is told at the lowest rung that it misses, else at the lowest of
// which nothing is known, else at the highest.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		reading webhook.Reading
		want    string
	}{
		{webhook.Reading{Rung: webhook.Backed, State: webhook.Waiting, Reason: "no endpoints"}, "backed waiting no endpoints"},
		{webhook.Reading{Rung: webhook.Serving, State: webhook.Unknown, Reason: "not called"}, "serving unknown not called"},
		{webhook.Reading{Rung: webhook.Serving, State: webhook.Ready}, "admitting ready "},
	} {
		w := diagnosis.Of(at(tt.reading, webhook.Owner{Release: "ns/r"}))
		require.Equal(t, tt.want, w.Rung+" "+w.State+" "+w.Cause)
		require.Equal(t, "ns/s", w.Service)
		require.Equal(t, "Helm release ns/r", w.Owner)
	}
}

// told counts reports.
type told int

func (n *told) Report(runner.Report) { *n++ }

// What was said of a webhook is not said again until something else was.
func TestOnce(t *testing.T) {
	var n told
	r := diagnosis.WithoutRepeats(&n)
	stands := func(name, state string) runner.Report {
		return runner.Report{Type: runner.TypeWebhook, Webhook: &runner.Webhook{Name: name, State: state}}
	}
	for _, report := range []runner.Report{
		stands("a", "waiting"),
		stands("b", "waiting"),
		stands("a", "waiting"), // said already
		stands("a", "ready"),
		stands("a", "waiting"),
		{Type: runner.TypeLog},
		{Type: runner.TypeLog},
	} {
		r.Report(report)
	}
	require.EqualValues(t, 6, n)
}

func TestOwners(t *testing.T) {
	p := &plan.Plan{File: "plan.yaml", Steps: []plan.Step{{Name: "op", Helm: &plan.Helm{Release: "r"}}}}
	owners := diagnosis.Owners{Plan: p, Namespace: "ns"}
	require.Equal(t, `Helm release ns/r, which step "op" installs`, owners.Of(webhook.Owner{Release: "ns/r"}))
	require.Equal(t, "Helm release other/r, which this plan does not install", owners.Of(webhook.Owner{Release: "other/r"}))
	require.Empty(t, owners.Of(webhook.Owner{}))
	p.File = ""
	require.Equal(t, "Helm release other/r", owners.Of(webhook.Owner{Release: "other/r"}))
}

func TestHint(t *testing.T) {
	owners := diagnosis.Owners{Plan: &plan.Plan{}}
	foreign := webhook.Owner{Release: "x/y"}
	none := webhook.Fault{}
	for name, tt := range map[string]struct {
		standing survey.Status
		fault    webhook.Fault
		want     string
	}{
		"a bundle":              {at(webhook.Reading{Rung: webhook.Trusted, State: webhook.Waiting}, foreign), none, "fills the CA bundle in"},
		"a stale one without":   {stale(foreign), none, "kubectl delete validatingwebhookconfiguration c"},
		"one to be trusted":     {stale(webhook.Owner{}), none, "fills the CA bundle in"},
		"a stale one":           {at(webhook.Reading{Rung: webhook.Backed, State: webhook.Waiting}, foreign), none, "kubectl delete validatingwebhookconfiguration c"},
		"a pod":                 {at(webhook.Reading{Rung: webhook.Backed, State: webhook.Waiting, Source: webhook.Object{Kind: "Pod", Namespace: "ns", Name: "p"}}, webhook.Owner{}), none, "kubectl describe pod -n ns p"},
		"a pod of a release":    {at(webhook.Reading{Rung: webhook.Backed, State: webhook.Waiting, Source: webhook.Object{Kind: "Pod", Namespace: "ns", Name: "p"}}, foreign), none, "kubectl describe pod -n ns p"},
		"not healing":           {at(webhook.Reading{Rung: webhook.Serving, State: webhook.Failed}, foreign), webhook.Fault{Class: webhook.Misconfigured}, "does not heal by waiting"},
		"silent":                {at(webhook.Reading{Rung: webhook.Admitting, State: webhook.Waiting}, foreign), none, "pods -n ns"},
		"known by a fault only": {survey.Status{}, webhook.Fault{Service: "s", Namespace: "far"}, "pods -n far"},
		"a conversion":          {survey.Status{}, webhook.Fault{Kind: webhook.Conversion}, "conversion webhook must run"},
		"nothing known":         {survey.Status{}, none, "kplan webhooks"},
	} {
		require.Contains(t, owners.Hint(tt.standing, tt.fault), tt.want, name)
	}
}

// A missing CA bundle does not hide that nothing is behind the webhook.
func TestLacks(t *testing.T) {
	require.Equal(t, "trusted: no CA bundle; routed: no Service", diagnosis.Lacks(stale(webhook.Owner{}).Ladder))
	require.Equal(t, "backed: no endpoints", diagnosis.Lacks(at(webhook.Reading{Rung: webhook.Backed, State: webhook.Waiting, Reason: "no endpoints"}, webhook.Owner{}).Ladder))
	require.Empty(t, diagnosis.Lacks(at(webhook.Reading{Rung: webhook.Serving, State: webhook.Unknown}, webhook.Owner{}).Ladder))
}

// Only a timeout is told as one; why a run was stopped is not hidden.
func TestTimedOut(t *testing.T) {
	bound := &runner.TimeoutError{After: time.Minute}
	err := diagnosis.TimedOut(bound, "webhook w to answer", "backed: no endpoints", "look")
	require.EqualError(t, err, "timed out after 1m waiting for webhook w to answer: backed: no endpoints")
	require.Equal(t, "look", runner.HintOf(err))
	require.ErrorIs(t, err, bound)
	stop := errors.New("interrupted")
	require.Equal(t, stop, diagnosis.TimedOut(stop, "x", "y", "z"))
	require.Equal(t, context.Canceled, diagnosis.TimedOut(context.Canceled, "x", "y", "z"))
}
