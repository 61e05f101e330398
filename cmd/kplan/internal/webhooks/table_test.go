package webhooks_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/webhooks"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

var update = flag.Bool("update", false, "write the goldens in testdata anew")

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ladder climbs to a rung, which stands as state says; nothing is known above.
func ladder(rung webhook.Rung, state webhook.State, reason string, rungs ...webhook.Rung) webhook.Ladder {
	if rungs == nil {
		rungs = webhook.Rungs
	}
	var l webhook.Ladder
	reached := true
	for _, r := range rungs {
		reading := webhook.Reading{Rung: r, State: webhook.Ready, Since: noon.Add(-time.Hour)}
		switch {
		case r == rung:
			reading = webhook.Reading{
				Rung: r, State: state, Reason: reason, Since: noon.Add(-90 * time.Second),
				Source: webhook.Object{Kind: "Pod", Namespace: "kof", Name: "p"},
			}
			reached = state == webhook.Ready
		case !reached:
			reading = webhook.Reading{Rung: r, State: webhook.Unknown}
		}
		l = append(l, reading)
	}
	return l
}

// cluster is one with a webhook of each sort.
func cluster() []webhooks.Webhook {
	at := func(namespace, name string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: name}}
	}
	rules := func(resources ...string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"operator.victoriametrics.com"}, Resources: resources},
		}}
	}
	crashing := "0 of 1 endpoints ready; pod vm-1 is in CrashLoopBackOff: container operator ended with 3: \x1b[31mno\nlicense\x07\u202e"
	return webhooks.Of([]survey.Status{
		{
			Entry: webhook.Entry{
				Kind: webhook.Validating, Configuration: "cert-manager-webhook", Name: "webhook.cert-manager.io", Client: at("cert-manager", "cert-manager-webhook"),
				FailurePolicy: admissionv1.Fail, SideEffects: admissionv1.SideEffectClassNone, Timeout: 30 * time.Second,
				Owner: webhook.Owner{Release: "cert-manager/cert-manager"},
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "cert-manager.io/disable-validation", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
				}},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.OperationAll},
					Rule:       admissionv1.Rule{APIGroups: []string{"cert-manager.io", "acme.cert-manager.io"}, Resources: []string{"*/*"}},
				}},
			},
			Ladder: ladder(webhook.Serving, webhook.Unknown, "it was not called yet"),
		},
		{
			Entry: webhook.Entry{
				Kind: webhook.Validating, Configuration: "vm-admission", Name: "vmalert.victoriametrics.com", Client: at("kof", "vm-operator"),
				FailurePolicy: admissionv1.Fail, Timeout: 10 * time.Second, Rules: rules("vmalerts"),
				Owner: webhook.Owner{Release: "kof/kof-mothership"},
			},
			Ladder: ladder(webhook.Backed, webhook.Waiting, crashing),
		},
		{
			Entry: webhook.Entry{
				Kind: webhook.Validating, Configuration: "vm-admission", Name: "vmrule.victoriametrics.com", Client: at("kof", "vm-operator"),
				FailurePolicy: admissionv1.Ignore, Timeout: 10 * time.Second, Rules: rules("vmrules", "vmrules/status"),
				Owner: webhook.Owner{Release: "kof/kof-mothership"},
			},
			Ladder: ladder(webhook.Backed, webhook.Waiting, crashing),
		},
		{
			Entry: webhook.Entry{
				Kind: webhook.Mutating, Configuration: "policy", Name: "policy.example.io", Timeout: 5 * time.Second, FailurePolicy: admissionv1.Fail,
				Client: admissionv1.WebhookClientConfig{URL: new("https://policy.example.io/mutate")},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}},
				}},
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"policy": "on"}},
			},
			Ladder: ladder(webhook.Trusted, webhook.Failed, "the CA bundle expired at 2026-01-01T11:58:30Z",
				webhook.Configured, webhook.Trusted, webhook.Serving, webhook.Admitting),
		},
		{
			Entry: webhook.Entry{
				Kind: webhook.Conversion, Configuration: "gizmos.example.io", Name: "gizmos.example.io", Client: at("gizmo", "converter"),
				Timeout: 30 * time.Second, Converts: schema.GroupKind{Group: "example.io", Kind: "Gizmo"},
			},
			Ladder: ladder(webhook.Routed, webhook.Unknown, "may not list services in namespace gizmo"),
		},
	})
}

// operator is the webhooks of one Service: many of one configuration, of which one
// stands otherwise, mutating ones in a configuration of the same name, and those of
// CRDs.
func operator() []webhooks.Webhook {
	client := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "kof", Name: "vm-operator"}}
	var all []survey.Status
	add := func(kind webhook.Kind, resource string, policy admissionv1.FailurePolicyType, l webhook.Ladder) {
		s := survey.Status{Entry: webhook.Entry{
			Kind: kind, Configuration: "vm-admission", Name: resource + ".victoriametrics.com", Client: client,
			FailurePolicy: policy, Timeout: 10 * time.Second, Owner: webhook.Owner{Release: "kof/vm"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"operator.victoriametrics.com"}, Resources: []string{resource}},
			}},
		}, Ladder: l}
		if kind == webhook.Conversion {
			s.Configuration, s.Name = resource+".operator.victoriametrics.com", resource+".operator.victoriametrics.com"
			s.Rules, s.FailurePolicy = nil, ""
			s.Converts = schema.GroupKind{Group: "operator.victoriametrics.com", Kind: resource}
		}
		all = append(all, s)
	}
	good := ladder(webhook.Serving, webhook.Unknown, "it was not called yet")
	add(webhook.Validating, "vmagents", admissionv1.Fail, good)
	add(webhook.Validating, "vmalerts", admissionv1.Fail, good)
	add(webhook.Validating, "vmrules", admissionv1.Ignore, good)
	add(webhook.Validating, "vmusers", admissionv1.Fail, ladder(webhook.Trusted, webhook.Waiting, "the CA bundle is empty"))
	add(webhook.Mutating, "vmalerts", admissionv1.Fail, good)
	add(webhook.Mutating, "vmusers", admissionv1.Fail, ladder(webhook.Trusted, webhook.Waiting, "the CA bundle is empty"))
	add(webhook.Conversion, "vmauths", "", good)
	add(webhook.Conversion, "vmsingles", "", good)
	return webhooks.Of(all)
}

// Rows that would say the same but for what is guarded are one; nothing that fails
// hides in it.
func TestFold(t *testing.T) {
	var folded, every bytes.Buffer
	style := webhooks.Style{Now: noon, Fold: true}
	require.NoError(t, style.Table(&folded, operator()))
	golden(t, "operator-folded.txt", folded.Bytes())
	style.Fold = false
	require.NoError(t, style.Table(&every, operator()))
	golden(t, "operator.txt", every.Bytes())
}

func TestTable(t *testing.T) {
	for name, style := range map[string]webhooks.Style{
		"plain":  {},
		"ascii":  {ASCII: true},
		"colour": {Colour: true},
		"wide":   {Wide: true},
		"120":    {Width: 120},
		"80":     {Width: 80},
		"40":     {Width: 40},
		"folded": {Fold: true},
	} {
		t.Run(name, func(t *testing.T) {
			style.Now = noon
			var b bytes.Buffer
			require.NoError(t, style.Table(&b, cluster()))
			golden(t, name+".txt", b.Bytes())
			for line := range strings.Lines(b.String()) {
				if style.Width >= 80 {
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), style.Width)
				}
				if !style.Colour {
					require.NotContains(t, line, "\x1b")
				}
				require.NotContains(t, line, "\x1b[31mno", "what the cluster says cannot colour")
			}
		})
	}
}

func TestLines(t *testing.T) {
	var b strings.Builder
	for _, w := range cluster() {
		b.WriteString(webhooks.Style{}.Line(w) + "\n")
	}
	golden(t, "lines.txt", []byte(b.String()))
}

func TestJSON(t *testing.T) {
	b, err := json.MarshalIndent(cluster(), "", "  ")
	require.NoError(t, err)
	golden(t, "webhooks.json", append(b, '\n'))
}

func TestSummary(t *testing.T) {
	style := webhooks.Style{}
	require.Equal(t, "0 webhooks, nothing that was read keeps any from answering\n", style.Summary(nil))
	all := cluster()
	require.Equal(t, "1 webhook, nothing that was read keeps any from answering\n", style.Summary(all[len(all)-1:]))
}

// The table of those that fail counts all of them.
func TestFailing(t *testing.T) {
	style := webhooks.Style{Failing: true, Now: noon}
	var b strings.Builder
	require.NoError(t, style.Table(&b, cluster()))
	require.Contains(t, b.String(), "5 webhooks, 3 cannot answer now:")
	require.NotContains(t, b.String(), "cert-manager")
	b.Reset()
	all := cluster()
	require.NoError(t, style.Table(&b, all[len(all)-1:]))
	require.Equal(t, "1 webhook, nothing that was read keeps any from answering\n", b.String())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
