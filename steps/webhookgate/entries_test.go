package webhookgate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/probe"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// silent takes no reports.
type silent struct{}

func (silent) Report(runner.Report) {}

// configuration is one of a kind, with one webhook that fails closed.
func configuration(kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name},
		"webhooks": []any{map[string]any{
			"name": name + ".example.io", "failurePolicy": "Fail", "clientConfig": map[string]any{"url": "https://127.0.0.1:1/"},
		}},
	}}
}

// Webhooks that were read do not stand for those that could not be: the step goes
// on when all were read, and CRDs that may not be read are told only.
func TestEntriesWantAll(t *testing.T) {
	kinds := map[schema.GroupVersionResource]string{
		mutating: "MutatingWebhookConfigurationList", validating: "ValidatingWebhookConfigurationList", definitions: "CustomResourceDefinitionList",
	}
	away := errors.New("the server is away")
	for name, tt := range map[string]struct {
		resource schema.GroupVersionResource
		failing  error
		until    time.Duration // how long reads fail
		took     time.Duration // how long the step waits at least, and less than 5 s more
		hidden   string
		err      string
	}{
		"all are read":         {},
		"some are read later":  {resource: mutating, failing: away, until: 20 * time.Second, took: 20 * time.Second},
		"some are never read":  {resource: mutating, failing: away, until: time.Hour, took: time.Minute, err: "configured: cannot list mutatingwebhookconfigurations: the server is away"},
		"CRDs are read later":  {resource: definitions, failing: away, until: 20 * time.Second, took: 20 * time.Second},
		"CRDs may not be read": {resource: definitions, failing: apierrors.NewForbidden(definitions.GroupResource(), "", nil), until: time.Hour, hidden: "may not list customresourcedefinitions"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds,
					configuration("MutatingWebhookConfiguration", "m"), configuration("ValidatingWebhookConfiguration", "v"))
				client.PrependReactor("list", tt.resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					return tt.failing != nil && time.Since(began) < tt.until, nil, tt.failing
				})
				view := survey.New(client)
				defer view.Close()
				action, err := New(diagnosis.Owners{Plan: &plan.Plan{}}, plan.Step{Webhook: &plan.Webhook{All: true}}, nil)
				require.NoError(t, err)
				a := &run{Action: action, survey: view, reporter: silent{}}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &runner.TimeoutError{After: time.Minute})
				defer cancel()
				v := a.follow(func(webhook.Entry) bool { return true })
				defer v.Close()

				entries, err := a.entries(ctx, v)

				took := time.Since(began)
				require.True(t, tt.took <= took && took < tt.took+5*time.Second, took)
				require.Equal(t, tt.hidden, a.unread(definitions))
				if tt.err != "" {
					require.ErrorContains(t, err, tt.err)
					return
				}
				require.NoError(t, err)
				require.Len(t, entries, 2)
			})
		})
	}
}

// What a dry run lacks is told with what mends it.
func TestHintOfACanaryThatCannotBeSent(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "canary", "namespace": "shop"}}}
	canary := &probe.Canary{Object: u, Source: "good.yaml"}
	g := &gate{}
	for reason, want := range map[string]string{
		`accept canary good.yaml (Widget/shop/canary): namespaces "shop" not found`:               "a dry run needs the namespace of its object: write another one into good.yaml, such as default, or let this step need the one that makes it",
		`accept canary good.yaml (Wigdet/shop/canary): no matches for kind "Wigdet" in "x.io/v1"`: "is the kind spelled so, in good.yaml? kubectl api-resources shows the kinds that there are",
		`the deny canary good.yaml (Widget/shop/canary) is admitted`:                              "see the answer with: kubectl create --dry-run=server -n shop -f good.yaml; change the canary, or the policy that it is to show",
	} {
		require.Equal(t, want, g.hint(survey.Status{}, probe.Outcome{State: probe.Missing, Reason: reason, Canary: canary}))
	}
}
