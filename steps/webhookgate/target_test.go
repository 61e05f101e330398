package webhookgate

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/standing"
	"github.com/kplan-dev/kplan/webhook"
)

// Which webhooks a step means, of five that differ in one thing each.
func TestTarget(t *testing.T) {
	entry := func(name string, change func(*webhook.Entry)) webhook.Entry {
		e := webhook.Entry{
			Kind: webhook.Validating, Configuration: "other", Name: name, FailurePolicy: admissionv1.Ignore,
			Owner: webhook.Owner{Release: "app/other"}, Labels: map[string]string{"team": "other"},
		}
		e.Client.Service = &admissionv1.ServiceReference{Namespace: "app", Name: "other"}
		change(&e)
		return e
	}
	entries := []webhook.Entry{
		entry("released", func(e *webhook.Entry) { e.Owner.Release = "app/op" }),
		entry("elsewhere", func(e *webhook.Entry) { e.Owner.Release = "home/op" }),
		entry("configured", func(e *webhook.Entry) { e.Configuration = "mine" }),
		entry("served", func(e *webhook.Entry) { e.Client.Service.Name = "hook" }),
		entry("labelled", func(e *webhook.Entry) { e.Labels["team"] = "mine" }),
		entry("closed", func(e *webhook.Entry) { e.FailurePolicy = admissionv1.Fail }),
		entry("converting", func(e *webhook.Entry) { e.Kind, e.FailurePolicy = webhook.Conversion, "" }),
	}
	owners := standing.Owners{Namespace: "home", Plan: &plan.Plan{Steps: []plan.Step{{Name: "op", Helm: &plan.Helm{Namespace: "app"}}}}}
	for name, tt := range map[string]struct {
		spec plan.Webhook
		want []string
	}{
		"a release, where its step puts it": {plan.Webhook{Release: "op"}, []string{"released"}},
		"a release of a namespace":          {plan.Webhook{Release: "op", Namespace: "home"}, []string{"elsewhere"}},
		"a release of nobody":               {plan.Webhook{Release: "none"}, nil},
		"a configuration":                   {plan.Webhook{Configuration: "mine"}, []string{"configured"}},
		"a Service":                         {plan.Webhook{Service: "app/hook"}, []string{"served"}},
		"labels":                            {plan.Webhook{Selector: "team in (mine)"}, []string{"labelled"}},
		"all that fail requests":            {plan.Webhook{All: true}, []string{"closed", "converting"}},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := targetOf(owners, tt.spec)
			require.NoError(t, err)
			var got []string
			for _, e := range entries {
				if target.wants(e) {
					got = append(got, e.Name)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
	_, err := targetOf(owners, plan.Webhook{Selector: "team in mine"})
	require.ErrorContains(t, err, `selector "team in mine"`)
}
