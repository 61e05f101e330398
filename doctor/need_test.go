package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// What guards the whole cluster cannot be tried on a cluster that others use: what a
// webhook of namespace hooks guards that it, or the cluster, needs.
func TestGuarded(t *testing.T) {
	t.Parallel()
	const everything = "rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]"
	for _, test := range []struct{ name, webhook, guarded, hint string }{
		{
			"everything", everything,
			"pods of kube-system, Helm's records in namespace hooks, Leases of namespace hooks and TokenReviews, by which the API server's callers are known",
			"leave the namespaces out, by a namespaceSelector with kubernetes.io/metadata.name NotIn [hooks kube-system], and leave tokenreviews out of its rules, or by a matchCondition",
		},
		{"it fails open", everything + "\nfailurePolicy: Ignore", "", ""},
		{"by URL", everything + "\nclientConfig: {url: 'https://example.com'}", "", ""},
		{
			"its own namespace is left out", everything + "\nnamespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [hooks, kube-system]}]}",
			"TokenReviews, by which the API server's callers are known",
			"leave tokenreviews out of its rules, or by a matchCondition",
		},
		{
			"labels that nobody knows", "rules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]\nnamespaceSelector: {matchLabels: {team: a}}", "", "",
		},
		{
			"a condition on the user, who is not known",
			"rules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]\nmatchConditions: [{name: a, expression: \"request.userInfo.username != 'system:kube-scheduler'\"}]", "", "",
		},
		{"sidecars by label", "rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]\nobjectSelector: {matchLabels: {inject: 'true'}}", "", ""},
		{"custom resources", "rules: [{apiGroups: [example.com], apiVersions: ['*'], operations: ['*'], resources: ['*']}]", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{}
			text := "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}}"
			require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
			w := map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "hooks", "name": "hook"}}}
			require.NoError(t, yaml.Unmarshal([]byte(test.webhook), &w))
			u.Object["webhooks"] = []any{w}
			entries, err := webhook.EntriesOf(u)
			require.NoError(t, err)
			require.Contains(t, []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}, entries[0].FailurePolicy)

			c := &Cluster{read: map[string]func() any{}, unread: map[string]bool{}}
			once(c, "sends reviews", func() bool { return true })
			guarded := c.guarded(t.Context(), &match.Matcher{}, hook{survey.Status{Entry: entries[0]}, "webhooks[0]"})
			require.Equal(t, test.guarded, texts(guarded))
			require.Equal(t, test.hint, exclusion(guarded))
		})
	}
}

// A release can be in another namespace than the Service; kube-system is named last.
func TestExclusion(t *testing.T) {
	needs := []need{{system: true}, {request: match.Request{Namespace: "releases"}}, {request: match.Request{Namespace: "hooks"}}}
	require.Equal(t, "leave the namespaces out, by a namespaceSelector with kubernetes.io/metadata.name NotIn [hooks releases kube-system]", exclusion(needs))
	require.Equal(t, "leave the namespace out, by a namespaceSelector with kubernetes.io/metadata.name NotIn [kube-system]", exclusion(needs[:1]))
}
