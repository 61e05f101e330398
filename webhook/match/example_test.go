package match_test

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// A chart brings a webhook for Secrets in namespaces that ask for it. Which of the
// objects of a later step does it intercept?
func Example() {
	entry := webhook.Entry{
		Kind: webhook.Validating, Configuration: "vault", Name: "secrets.vault.example.com",
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"vault": "on"}},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "not-helm", Expression: `!has(object.type) || object.type != "helm.sh/release.v1"`,
		}},
	}
	namespaces := map[string]map[string]string{"shop": {"vault": "on"}, "lab": {}}
	m := match.Matcher{Cluster: match.Cluster{Labels: func(name string) (map[string]string, bool) {
		labels, known := namespaces[name]
		return labels, known
	}}}
	create := func(namespace, kind string) {
		v := m.Match(context.Background(), entry, match.Request{
			Operation: admissionv1.Create, Namespace: namespace,
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
			Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Secret"},
			Object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "login"}, "type": kind,
			}},
			Planned: true,
		})
		fmt.Printf("%s: %s\n", v.Outcome, v.Reason)
	}
	create("shop", "Opaque")
	create("shop", "helm.sh/release.v1")
	create("lab", "Opaque")
	create("new", "Opaque")
	// Output:
	// calls: its rules name CREATE of v1 secrets
	// skips: its matchCondition "not-helm" is false
	// skips: its namespaceSelector leaves namespace "lab" out
	// maybe: its namespaceSelector needs the labels of namespace "new", which are not known
}
