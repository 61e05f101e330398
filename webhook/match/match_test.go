package match_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// object reads an object from YAML.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

// entry reads a webhook from YAML, which may leave out what all need. One with
// a reinvocationPolicy is mutating.
func entry(t testing.TB, text string) webhook.Entry {
	t.Helper()
	hook := map[string]any{
		"name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"url": "https://127.0.0.1:1"},
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &hook))
	kind := "ValidatingWebhookConfiguration"
	if hook["reinvocationPolicy"] != nil {
		kind = "MutatingWebhookConfiguration"
	}
	entries, err := webhook.EntriesOf(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
		"metadata": map[string]any{"name": "c"}, "webhooks": []any{hook},
	}})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return entries[0]
}

const crd = `
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {plural: gadgets}
  versions:
  - {name: v1, served: true, subresources: {status: {}, scale: {}}}
  - {name: v2, served: true, subresources: {status: {}}}
  - {name: v1alpha1, served: false}
`

// cluster knows namespaces "prod" and "dev", gadgets, and what discovery lists.
func cluster(t testing.TB) match.Cluster {
	t.Helper()
	var r match.Resources
	require.NoError(t, r.AddDiscovery(
		&metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "events"}, {Name: "configmaps"}, {Name: "pods"}, {Name: "pods/status"}}},
		&metav1.APIResourceList{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "events"}}},
		&metav1.APIResourceList{GroupVersion: "autoscaling/v2", APIResources: []metav1.APIResource{{Name: "horizontalpodautoscalers"}}},
		&metav1.APIResourceList{GroupVersion: "autoscaling/v1", APIResources: []metav1.APIResource{{Name: "horizontalpodautoscalers"}}},
	))
	require.NoError(t, r.AddCRD(object(t, crd)))
	return match.Cluster{
		Labels: func(name string) (map[string]string, bool) {
			labels, known := map[string]map[string]string{"prod": {"env": "prod"}, "dev": {"env": "dev"}}[name]
			return labels, known
		},
		Resources: &r,
	}
}

// requests that the tables speak of.
func requests(t testing.TB) map[string]match.Request {
	t.Helper()
	configMap := match.Request{
		Operation: admissionv1.Create, Namespace: "prod",
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Object:   object(t, `{metadata: {name: settings, labels: {tier: web}}, data: {a: "1"}}`),
	}
	change := func(r match.Request, change func(*match.Request)) match.Request { change(&r); return r }
	gadget := match.Request{
		Operation: admissionv1.Create, Namespace: "prod",
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"},
		Kind:     schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"},
		Object:   object(t, `{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}, spec: {replicas: 3}}`),
	}
	namespace := match.Request{
		Operation: admissionv1.Create,
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		Kind:      schema.GroupVersionKind{Version: "v1", Kind: "Namespace"},
		Object:    object(t, `{metadata: {name: shop, labels: {env: prod}}}`),
	}
	return map[string]match.Request{
		"create ConfigMap":         configMap,
		"create ConfigMap in dev":  change(configMap, func(r *match.Request) { r.Namespace = "dev" }),
		"create ConfigMap in new":  change(configMap, func(r *match.Request) { r.Namespace = "new" }),
		"create some ConfigMap":    change(configMap, func(r *match.Request) { r.Object = nil }),
		"create planned ConfigMap": change(configMap, func(r *match.Request) { r.Planned = true }),
		"dry-run ConfigMap":        change(configMap, func(r *match.Request) { r.DryRun = true }),
		"create ConfigMap as jane": change(configMap, func(r *match.Request) { r.User = &authenticationv1.UserInfo{Username: "jane"} }),
		"update ConfigMap": change(configMap, func(r *match.Request) {
			r.Operation, r.OldObject = admissionv1.Update, object(t, `{metadata: {name: settings, labels: {tier: db}}}`)
		}),
		"update unread ConfigMap": change(configMap, func(r *match.Request) { r.Operation = admissionv1.Update }),
		"delete ConfigMap": change(configMap, func(r *match.Request) {
			r.Operation, r.Object, r.OldObject = admissionv1.Delete, nil, r.Object
		}),
		"create Secret": change(configMap, func(r *match.Request) {
			r.Resource.Resource, r.Kind.Kind, r.Object = "secrets", "Secret", object(t, `{metadata: {name: s}, data: {a: MQ==}}`)
		}),
		"create Gadget": gadget,
		"write Gadget status": change(gadget, func(r *match.Request) {
			r.Operation, r.OldObject, r.Subresource = admissionv1.Update, r.Object, "status"
		}),
		"scale Gadget": change(gadget, func(r *match.Request) {
			r.Operation, r.Subresource, r.Kind = admissionv1.Update, "scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
			r.Object = object(t, `{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: g}, spec: {replicas: 3}}`)
			r.OldObject = r.Object
		}),
		"create Unlisted": change(gadget, func(r *match.Request) { r.Resource.Resource, r.Kind.Kind = "unlisted", "Unlisted" }),
		"create HPA": change(gadget, func(r *match.Request) {
			r.Resource = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
			r.Kind = schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
			r.Object = object(t, `{metadata: {name: h}, spec: {maxReplicas: 3}}`)
		}),
		"create Event": change(configMap, func(r *match.Request) {
			r.Resource, r.Kind.Kind = schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event"
			r.Object = object(t, `{metadata: {name: e}}`)
		}),
		"create Namespace": namespace,
		"delete Namespace": change(namespace, func(r *match.Request) { r.Operation, r.Object, r.Name = admissionv1.Delete, nil, "prod" }),
		"delete unlisted Namespace": change(namespace, func(r *match.Request) {
			r.Operation, r.Object, r.OldObject = admissionv1.Delete, nil, r.Object
		}),
		"create ClusterRole": change(namespace, func(r *match.Request) {
			r.Resource = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
			r.Kind = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
			r.Object = object(t, `{metadata: {name: role}}`)
		}),
		"exec in Pod": change(configMap, func(r *match.Request) {
			r.Operation, r.Object, r.Resource.Resource, r.Subresource, r.Kind.Kind = admissionv1.Connect, nil, "pods", "exec", "PodExecOptions"
		}),
		"create webhook": change(namespace, func(r *match.Request) {
			r.Resource = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
			r.Kind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}
		}),
		"review a token": change(namespace, func(r *match.Request) {
			r.Resource = schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews"}
			r.Kind = schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"}
		}),
	}
}

// everything is the rules of a webhook that is called for all requests.
const everything = `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]` + "\n"

func rule(fields string) string { return "rules: [{" + fields + "}]\n" }

func TestMatch(t *testing.T) {
	c, all := cluster(t), requests(t)
	for _, tt := range []struct{ request, hook, want, reason string }{
		// Rules.
		{"create ConfigMap", everything, "calls", "its rules name CREATE of v1 configmaps"},
		{"create ConfigMap", ``, "skips", "its rules leave CREATE of v1 configmaps out"},
		{"create ConfigMap", rule(`operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]`), "skips", "its rules leave"},
		{"update ConfigMap", rule(`operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]`), "calls", ""},
		{"create ConfigMap", rule(`operations: ["*"], apiGroups: [apps], apiVersions: ["*"], resources: ["*"]`), "skips", "its rules leave"},
		{"write Gadget status", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]`), "skips", "its rules leave UPDATE of example.com/v1 gadgets/status out"},
		{"write Gadget status", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["gadgets/*"]`), "calls", ""},
		{"write Gadget status", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/status"]`), "calls", ""},
		// Scope. A Namespace is cluster-scoped.
		{"create ConfigMap", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Cluster`), "skips", "its rules leave"},
		{"create ConfigMap", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Namespaced`), "calls", ""},
		{"create Namespace", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Cluster`), "calls", ""},
		{"create Namespace", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Namespaced`), "skips", "its rules leave"},
		{"create ClusterRole", rule(`operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Namespaced`), "skips", "its rules leave"},
		// Equivalent resources.
		{"create Gadget", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets]`), "calls", "its rules name CREATE of example.com/v1 gadgets by its equivalent example.com/v2"},
		{"create Gadget", "matchPolicy: Exact\n" + rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets]`), "skips", "its rules leave"},
		{"create Gadget", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v1alpha1], resources: [gadgets]`), "calls", "by its equivalent example.com/v1alpha1"},
		{"create Gadget", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v3], resources: [gadgets]`), "skips", "its rules leave"},
		{"scale Gadget", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets/scale]`), "skips", "its rules leave"},
		{"write Gadget status", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets/status]`), "calls", "by its equivalent"},
		{"create Event", rule(`operations: ["*"], apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events]`), "calls", "by its equivalent events.k8s.io/v1"},
		{"create Unlisted", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v2], resources: [unlisted]`), "maybe", "its rules name another version of example.com/v1 unlisted, and whether that is served is not known"},
		{"create Unlisted", rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [v2], resources: [gadgets]`), "skips", "its rules leave"},
		// namespaceSelector.
		{"create ConfigMap", everything + `namespaceSelector: {matchLabels: {env: prod}}`, "calls", ""},
		{"create ConfigMap in dev", everything + `namespaceSelector: {matchLabels: {env: prod}}`, "skips", `its namespaceSelector leaves namespace "dev" out`},
		{"create ConfigMap in new", everything + `namespaceSelector: {matchLabels: {env: prod}}`, "maybe", `its namespaceSelector needs the labels of namespace "new", which are not known`},
		{"create ConfigMap in new", everything, "calls", ""},
		{"create ConfigMap", everything + `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: prod}}`, "calls", ""},
		{"create ClusterRole", everything + `namespaceSelector: {matchLabels: {env: prod}}`, "calls", ""},
		{"create Namespace", everything + `namespaceSelector: {matchLabels: {env: prod, kubernetes.io/metadata.name: shop}}`, "calls", ""},
		{"create Namespace", everything + `namespaceSelector: {matchLabels: {env: dev}}`, "skips", "its namespaceSelector leaves the namespace's own labels out"},
		{"delete Namespace", everything + `namespaceSelector: {matchLabels: {env: prod}}`, "calls", ""},
		{"delete unlisted Namespace", everything + `namespaceSelector: {matchLabels: {env: prod}}`, "calls", ""},
		// objectSelector: new or old object.
		{"create ConfigMap", everything + `objectSelector: {matchLabels: {tier: web}}`, "calls", ""},
		{"create ConfigMap", everything + `objectSelector: {matchLabels: {tier: db}}`, "skips", "its objectSelector leaves the object's labels out"},
		{"update ConfigMap", everything + `objectSelector: {matchLabels: {tier: db}}`, "calls", ""},
		{"update unread ConfigMap", everything + `objectSelector: {matchLabels: {tier: web}}`, "calls", ""},
		{"update unread ConfigMap", everything + `objectSelector: {matchLabels: {tier: db}}`, "maybe", "its objectSelector needs the object's labels, which are not known"},
		{"delete ConfigMap", everything + `objectSelector: {matchLabels: {tier: web}}`, "calls", ""},
		{"create some ConfigMap", everything + `objectSelector: {matchLabels: {tier: web}}`, "maybe", "its objectSelector needs"},
		{"exec in Pod", everything + `objectSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}`, "skips", "its objectSelector finds no labels in a connection"},
		// What never is sent to webhooks.
		{"create webhook", everything, "skips", "the API server sends no MutatingWebhookConfiguration to webhooks"},
		{"review a token", everything, "maybe", "API servers send no tokenreviews to webhooks since Kubernetes 1.37"},
		{"dry-run ConfigMap", everything + `sideEffects: Some`, "rejects", "its sideEffects are Some, so the API server refuses dry runs"},
		{"dry-run ConfigMap", everything + `sideEffects: NoneOnDryRun`, "calls", ""},
	} {
		t.Run(tt.request+"/"+tt.hook, func(t *testing.T) {
			m := match.Matcher{Cluster: c}
			v := m.Match(t.Context(), entry(t, tt.hook), all[tt.request])
			require.Equal(t, tt.want, string(v.Outcome), v.Reason)
			require.Contains(t, v.Reason, tt.reason)
		})
	}
}

func condition(expressions ...string) string {
	text := everything + "matchConditions:\n"
	for i, e := range expressions {
		text += "- {name: " + string(rune('a'+i)) + ", expression: " + `'` + e + `'` + "}\n"
	}
	return text
}

func TestMatchConditions(t *testing.T) {
	c, all := cluster(t), requests(t)
	const ignore, exact = "failurePolicy: Ignore\n", "matchPolicy: Exact\n"
	for _, tt := range []struct{ request, hook, want, reason string }{
		{"create ConfigMap", condition(`object.data.a == "1"`), "calls", ""},
		{"create ConfigMap", condition(`object.data.a == "2"`), "skips", `its matchCondition "a" is false`},
		{"create ConfigMap", condition(`true`, `request.namespace == "dev"`), "skips", `its matchCondition "b" is false`},
		{"create ConfigMap", condition(`object.kind == "ConfigMap" && object.metadata.namespace == "prod" && request.name == "settings"`), "calls", ""},
		{"delete ConfigMap", condition(`object == null && oldObject.metadata.name == "settings"`), "calls", ""},
		{"create ConfigMap", condition(`oldObject == null && namespaceObject == null`), "calls", ""},
		// Built-in objects read as the API server decodes them.
		{"create Secret", condition(`object.data.a == "MQ=="`), "calls", ""},
		{"create Namespace", condition(`object.metadata.labels["kubernetes.io/metadata.name"] == "shop" && has(object.spec)`), "calls", ""},
		// Errors follow failurePolicy, unless another condition is false.
		{"create ConfigMap", condition(`object.data.b == "1"`), "rejects", "its matchConditions fail and its failurePolicy is Fail"},
		{"create ConfigMap", ignore + condition(`object.data.b == "1"`), "skips", "its matchConditions fail and its failurePolicy is Ignore"},
		{"create ConfigMap", condition(`object.data.b == "1"`, `false`), "skips", `its matchCondition "b" is false`},
		{"create ConfigMap", condition(`object.data.b == `), "rejects", "Syntax error"},
		{"create planned ConfigMap", condition(`object.data.b == "1"`), "maybe", "its matchConditions fail on the object as planned"},
		{"create planned ConfigMap", ignore + condition(`object.data.b == "1"`), "maybe", "its matchConditions fail on the object as planned"},
		{"create planned ConfigMap", condition(`request.namespace == "prod"`), "calls", ""},
		// What is not known.
		{"create some ConfigMap", condition(`has(object.data)`), "maybe", `its matchCondition "a" needs the object, which is not known`},
		{"create some ConfigMap", condition(`has(object.data)`, `request.operation == "DELETE"`), "skips", `its matchCondition "b" is false`},
		{"update unread ConfigMap", condition(`oldObject.data == object.data`), "maybe", "needs the old object"},
		{"create ConfigMap", condition(`request.userInfo.username == "jane"`), "maybe", "needs the user,"},
		{"create ConfigMap as jane", condition(`request.userInfo.username == "jane"`), "calls", ""},
		{"create ConfigMap as jane", condition(`authorizer.group("").resource("configmaps").check("escalate").allowed()`), "maybe", "needs the user's rights"},
		{"create ConfigMap", condition(`request.options.fieldManager == "x"`), "maybe", "needs the request's options"},
		{"create ConfigMap", condition(`request.?userInfo.username.orValue("") == ""`), "maybe", "needs the whole request"},
		{"create ConfigMap", condition(`.request.userInfo.username == "x"`), "maybe", "needs the user,"},
		{"create ConfigMap", condition(`["a"].all(u, u != request.userInfo.username)`), "maybe", "needs the user,"},
		{"create ConfigMap", condition(`has(request.userInfo.username)`), "maybe", "needs the user,"},
		{"create Unlisted", conditionOf("v2", "unlisted", `request.kind.version == "v2"`), "maybe", "its rules name another version"},
		{"create Unlisted", conditionOf("v2", "unlisted", `object.apiVersion.endsWith("v2")`), "maybe", "its rules name another version"},
		{"create Unlisted", conditionOf("v2", "unlisted", `request.namespace == "dev"`), "skips", "is false"},
		// Custom resources are converted where that is a new apiVersion only.
		{"create Gadget", "matchPolicy: Equivalent\n" + condition(`object.apiVersion == "example.com/v1"`), "calls", ""},
		{"create Gadget", conditionFor("v2", `object.apiVersion == "example.com/v2" && request.kind.version == "v2" && request.requestKind.version == "v1"`), "calls", ""},
		{"create Gadget", exact + conditionFor("v2", `true`), "skips", "its rules leave"},
		{"create HPA", `rules: [{operations: ["*"], apiGroups: [autoscaling], apiVersions: [v1], resources: ["*"]}]` + "\n" +
			`matchConditions: [{name: a, expression: "object.spec.maxReplicas > 1"}]`, "maybe", "needs the object in another version"},
		{"create HPA", `rules: [{operations: ["*"], apiGroups: [autoscaling], apiVersions: [v1], resources: ["*"]}]` + "\n" +
			`matchConditions: [{name: a, expression: "request.kind.version == 'v1'"}]`, "calls", ""},
	} {
		t.Run(tt.request+"/"+tt.hook, func(t *testing.T) {
			m := match.Matcher{Cluster: c}
			for range 2 { // compiled, then remembered
				v := m.Match(t.Context(), entry(t, tt.hook), all[tt.request])
				require.Equal(t, tt.want, string(v.Outcome), v.Reason)
				require.Contains(t, v.Reason, tt.reason)
			}
		})
	}
}

// conditionFor is a webhook that knows one version of gadgets.
func conditionFor(version, expression string) string {
	return conditionOf(version, "gadgets", expression)
}

func conditionOf(version, resource, expression string) string {
	return rule(`operations: ["*"], apiGroups: [example.com], apiVersions: [`+version+`], resources: [`+resource+`]`) +
		"matchConditions: [{name: a, expression: '" + expression + "'}]"
}

func TestAuthorizer(t *testing.T) {
	c := cluster(t)
	c.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "jane" && a.GetVerb() == "escalate" && a.GetResource() == "configmaps" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionDeny, "", nil
	})
	m := match.Matcher{Cluster: c}
	r := requests(t)["create ConfigMap as jane"]
	e := entry(t, condition(`authorizer.group("").resource("configmaps").check("escalate").allowed()`))
	require.Equal(t, match.Calls, m.Match(t.Context(), e, r).Outcome)
	r.User = &authenticationv1.UserInfo{Username: "joe"}
	require.Equal(t, match.Skips, m.Match(t.Context(), e, r).Outcome)
	r.User = nil
	require.Equal(t, match.Maybe, m.Match(t.Context(), e, r).Outcome)
}

// What an invalid selector does is up to the API server, which accepts none.
func TestInvalidSelector(t *testing.T) {
	bad := `{matchExpressions: [{key: a, operator: Near}]}`
	for _, field := range []string{"namespaceSelector", "objectSelector"} {
		m := match.Matcher{Cluster: cluster(t)}
		v := m.Match(t.Context(), entry(t, everything+field+": "+bad), requests(t)["create ConfigMap"])
		require.Equal(t, match.Maybe, v.Outcome)
		require.Contains(t, v.Reason, "its "+field+" is invalid")
	}
}

func TestZeroValues(t *testing.T) {
	m := match.Matcher{}
	require.Equal(t, match.Skips, m.Match(t.Context(), webhook.Entry{}, match.Request{}).Outcome)
	require.Equal(t, match.Skips, m.Match(t.Context(), webhook.Entry{Kind: webhook.Conversion}, match.Request{}).Outcome)
	require.Equal(t, match.Calls, m.Match(t.Context(), entry(t, everything), match.Request{Object: &unstructured.Unstructured{}}).Outcome)
	require.Empty(t, m.Filter(t.Context(), nil, match.Request{}))
}

func TestReinvocation(t *testing.T) {
	m := match.Matcher{Cluster: cluster(t)}
	r := requests(t)["create ConfigMap"]
	require.True(t, m.Match(t.Context(), entry(t, everything+"reinvocationPolicy: IfNeeded"), r).Again)
	require.False(t, m.Match(t.Context(), entry(t, everything+"reinvocationPolicy: Never"), r).Again)
	require.False(t, m.Match(t.Context(), entry(t, "reinvocationPolicy: IfNeeded"), r).Again)
}

func TestFilterIsInTheOrderOfCalls(t *testing.T) {
	m := match.Matcher{Cluster: cluster(t)}
	var entries []webhook.Entry
	for _, e := range []struct{ configuration, name, hook string }{
		{"b", "1", everything + "reinvocationPolicy: Never"},
		{"b", "2", everything},
		{"z", "3", everything + "reinvocationPolicy: IfNeeded"},
		{"z", "4", "reinvocationPolicy: Never"},
		{"a", "5", everything},
		{"a", "6", everything + "reinvocationPolicy: Never"},
		{"a", "7", everything + "reinvocationPolicy: Never"},
	} {
		w := entry(t, e.hook)
		w.Configuration, w.Name = e.configuration, e.name
		entries = append(entries, w)
	}
	var names string
	for _, h := range m.Filter(t.Context(), entries, requests(t)["create ConfigMap"]) {
		names += h.Entry.Name
	}
	require.Equal(t, "671352", names)
}

// A request's objects are the caller's.
func TestObjectsAreLeftAlone(t *testing.T) {
	m := match.Matcher{Cluster: cluster(t)}
	for name, r := range requests(t) {
		before := r.Object.DeepCopy()
		m.Match(t.Context(), entry(t, conditionFor("v2", `has(object.spec)`)), r)
		m.Match(t.Context(), entry(t, condition(`has(object.metadata)`)), r)
		require.Equal(t, before, r.Object, name)
	}
}

func TestAddCRDRefusesWhatIsNone(t *testing.T) {
	var r match.Resources
	require.ErrorContains(t, r.AddCRD(object(t, `{metadata: {name: x}}`)), "lacks group, plural or versions")
	require.Error(t, r.AddCRD(object(t, `{spec: {versions: 1}}`)))
	require.Error(t, r.AddDiscovery(&metav1.APIResourceList{GroupVersion: "a/b/c"}))
}
