package webhookgate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
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
	owners := diagnosis.Owners{Namespace: "home", Plan: &plan.Plan{Steps: []plan.Step{{Name: "op", Helm: &plan.Helm{Namespace: "app"}}}}}
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

// CRDs are read for targets that can contain their conversion webhooks only.
func TestTargetReadsCRDs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"map.yaml":     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"ingress.yaml": "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}}",
		"gateway.yaml": "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: a}}",
		"store.yaml":   "{apiVersion: example.io/v1, kind: Store, metadata: {name: a}}",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	owners := diagnosis.Owners{Plan: &plan.Plan{}, Namespace: "home"}
	for name, tt := range map[string]struct {
		spec plan.Webhook
		want bool
	}{
		"a release":       {plan.Webhook{Release: "op"}, true},
		"a configuration": {plan.Webhook{Configuration: "mine"}, false},
		"a Service":       {plan.Webhook{Service: "app/hook"}, true},
		"labels":          {plan.Webhook{Selector: "team=mine"}, true},
		"all":             {plan.Webhook{All: true}, true},
		"built-in kinds":  {plan.Webhook{Files: []string{"map.yaml", "ingress.yaml"}}, false},
		"a custom kind":   {plan.Webhook{Files: []string{"map.yaml", "store.yaml"}}, true},
		"one of *.k8s.io": {plan.Webhook{Files: []string{"gateway.yaml"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := New(owners, plan.Step{Name: "gate", Dir: dir, Webhook: &tt.spec}, nil)
			require.NoError(t, err)
			require.Equal(t, tt.want, a.target.conversions)
		})
	}
}
