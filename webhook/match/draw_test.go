package match_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kplan-dev/kplan/webhook/match"
)

// hook is a generated webhook; a validating one is made of it for
// configuration v.
type hook struct {
	configuration string
	patches       bool
	hook          registrationv1.MutatingWebhook
}

// GoString shows the hook in a failing test.
func (h hook) GoString() string {
	text, _ := json.Marshal(h.hook)
	return fmt.Sprintf("\n%s patches=%v %s", h.configuration, h.patches, text)
}

func (h *hook) name(g *ground, i int) {
	h.hook.Name = fmt.Sprintf("w%d.%s", i, g.group)
	p := fmt.Sprintf("/w%d", i)
	if h.patches {
		p += "/patch"
	}
	h.hook.ClientConfig = g.recorder.client(p)
}

func (g *ground) drawHook(t *rapid.T) hook {
	h := hook{configuration: rapid.SampledFrom([]string{"a", "b", "v", "v"}).Draw(t, "configuration")}
	h.patches = h.configuration != "v" && rapid.Bool().Draw(t, "patches")
	h.hook = registrationv1.MutatingWebhook{
		SideEffects: new(registrationv1.SideEffectClassNoneOnDryRun), AdmissionReviewVersions: []string{"v1"},
		Rules:              rapid.SliceOfN(rapid.Custom(g.drawRule), 1, 2).Draw(t, "rules"),
		MatchPolicy:        rapid.SampledFrom([]*registrationv1.MatchPolicyType{nil, new(registrationv1.Exact), new(registrationv1.Equivalent)}).Draw(t, "matchPolicy"),
		FailurePolicy:      new(rapid.SampledFrom([]registrationv1.FailurePolicyType{registrationv1.Fail, registrationv1.Ignore}).Draw(t, "failurePolicy")),
		ReinvocationPolicy: rapid.SampledFrom([]*registrationv1.ReinvocationPolicyType{nil, new(registrationv1.IfNeededReinvocationPolicy)}).Draw(t, "reinvocation"),
		NamespaceSelector: rapid.SampledFrom([]*metav1.LabelSelector{
			nil, nil, nil, nil,
			{},
			equals("env", "prod"), where("env", metav1.LabelSelectorOpNotIn, "dev"), where("env", metav1.LabelSelectorOpExists),
			where("kubernetes.io/metadata.name", metav1.LabelSelectorOpIn, g.prefix+"prod", g.prefix+"none", g.prefix+"new"),
		}).Draw(t, "namespaceSelector"),
		ObjectSelector: rapid.SampledFrom([]*metav1.LabelSelector{
			nil, nil, nil, nil,
			{},
			equals("tier", "web"), where("tier", metav1.LabelSelectorOpNotIn, "web"), where("tier", metav1.LabelSelectorOpDoesNotExist),
			where("kubernetes.io/metadata.name", metav1.LabelSelectorOpExists),
		}).Draw(t, "objectSelector"),
	}
	for i, e := range rapid.SliceOfNDistinct(rapid.SampledFrom(g.expressions()), 0, 3, rapid.ID).Draw(t, "conditions") {
		h.hook.MatchConditions = append(h.hook.MatchConditions, registrationv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: e})
	}
	foreign := slices.ContainsFunc(h.hook.Rules, func(r registrationv1.RuleWithOperations) bool { return r.APIGroups[0] != g.group })
	if foreign { // see ground
		h.hook.MatchConditions = append(h.hook.MatchConditions, registrationv1.MatchCondition{
			Name: "bound", Expression: fmt.Sprintf("request.name.startsWith(%q)", g.prefix),
		})
	}
	return h
}

func equals(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func where(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func (g *ground) drawRule(t *rapid.T) registrationv1.RuleWithOperations {
	scopes := []*registrationv1.ScopeType{nil, nil, new(registrationv1.AllScopes), new(registrationv1.ClusterScope), new(registrationv1.NamespacedScope)}
	// Most of what is drawn names the request, so that the other checks count.
	draw := func(label, any string, lists ...string) []string {
		if rapid.IntRange(0, 2).Draw(t, label+" any") > 0 {
			return []string{any}
		}
		return strings.Split(rapid.SampledFrom(lists).Draw(t, label), ",")
	}
	var operations []registrationv1.OperationType
	for _, o := range draw("operations", "*", "CREATE", "UPDATE,DELETE", "CREATE,UPDATE") {
		operations = append(operations, registrationv1.OperationType(o))
	}
	return registrationv1.RuleWithOperations{Operations: operations, Rule: registrationv1.Rule{
		APIGroups:   draw("groups", rapid.SampledFrom([]string{"*", g.group}).Draw(t, "group"), "", ","+g.group, "example.com"),
		APIVersions: draw("versions", rapid.SampledFrom([]string{"*", "v1", "v2", "v0"}).Draw(t, "version"), "v2,v1", "v0,v1", "v9"),
		Resources: draw("resources", "*/*", "*", "configmaps", "gadgets", "gadgets/*", "gadgets,gadgets/status",
			"*/scale", "orbs,namespaces", "*/status"),
		Scope: rapid.SampledFrom(scopes).Draw(t, "scope"),
	}}
}

// expressions are conditions: true, false and failing ones, by request.
func (g *ground) expressions() []string {
	return []string{
		`object == null || object.kind != "Namespace" || has(object.status)`,
		`request.operation == "CREATE"`,
		`request.operation != "DELETE"`,
		`object != null`,
		`oldObject != null && has(oldObject.metadata.labels)`,
		`object.metadata.labels["tier"] == "web"`,
		`has(object.metadata.labels) && "tier" in object.metadata.labels`,
		`object == null || object.apiVersion.endsWith("v2")`,
		`oldObject == null || oldObject.apiVersion.endsWith("v1")`,
		`request.kind.version != "v2"`,
		`request.resource.version == "v1"`,
		`request.requestKind.kind == request.kind.kind`,
		`request.subResource == ""`,
		`request.requestSubResource in ["", "status"]`,
		`request.namespace == ""`,
		`request.namespace.startsWith("` + g.prefix + `")`,
		`object.metadata.namespace != ""`,
		`object.spec.replicas > 1`,
		`has(object.spec) && has(object.spec.replicas)`,
		`has(object.data) || object.kind == "Orb"`,
		`object.data.a == "1"`,
		`"system:masters" in request.userInfo.groups`,
		`request.userInfo.username == "nobody"`,
		`authorizer.requestResource.check("get").allowed()`,
		`request.dryRun && namespaceObject == null`,
		`request.options.kind == "CreateOptions"`,
		`request.name.matches("old$")`,
		`object.metadata.name == request.name`,
	}
}

// kind is a kind of objects that requests are about.
type kind struct {
	resource    schema.GroupVersionResource
	gvk         schema.GroupVersionKind
	subresource string
	namespaced  bool
}

func (g *ground) kinds() []kind {
	custom := func(version, resource, name, subresource string, namespaced bool) kind {
		gv := schema.GroupVersion{Group: g.group, Version: version}
		k := kind{resource: gv.WithResource(resource), gvk: gv.WithKind(name), subresource: subresource, namespaced: namespaced}
		if subresource == "scale" {
			k.gvk = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		}
		return k
	}
	core := schema.GroupVersion{Version: "v1"}
	return []kind{
		{resource: core.WithResource("namespaces"), gvk: core.WithKind("Namespace")},
		{resource: core.WithResource("configmaps"), gvk: core.WithKind("ConfigMap"), namespaced: true},
		custom("v1", "gadgets", "Gadget", "", true),
		custom("v2", "gadgets", "Gadget", "", true),
		custom("v1", "gadgets", "Gadget", "status", true),
		custom("v2", "gadgets", "Gadget", "status", true),
		custom("v1", "gadgets", "Gadget", "scale", true),
		custom("v1", "orbs", "Orb", "", false),
		custom("v2", "orbs", "Orb", "", false),
	}
}

// places are the namespaces of a kind's objects, or for Namespaces their names.
func (k kind) places(g *ground) []string {
	if !k.namespaced && k.resource.Resource != "namespaces" {
		return []string{""}
	}
	var places []string
	for _, env := range environments {
		places = append(places, g.prefix+env)
	}
	return places
}

func (k kind) key(place string) string { return fmt.Sprint(k.resource, k.subresource, place) }

func (k kind) object(g *ground, name, ns string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(k.gvk)
	u.SetName(name)
	u.SetNamespace(ns)
	u.SetLabels(labels)
	switch k.resource.Resource {
	case "configmaps":
		u.Object["data"] = map[string]any{"a": "1"}
	case "gadgets":
		u.Object["spec"] = map[string]any{"replicas": int64(2)}
	}
	return u
}

// operation is a request and how to send it.
type operation struct {
	kind    kind
	request match.Request
}

// String shows the operation in a failing test.
func (o operation) String() string {
	r := o.request
	return fmt.Sprintf("%s %v/%s %s/%s\nobject: %v\nold object: %v", r.Operation, r.Resource, r.Subresource, r.Namespace, r.Name, r.Object, r.OldObject)
}

func (g *ground) drawOperation(t *rapid.T) operation {
	k := rapid.SampledFrom(g.kinds()).Draw(t, "kind")
	operations := []registrationv1.OperationType{registrationv1.Create, registrationv1.Update, registrationv1.Delete}
	if k.subresource != "" {
		operations = operations[1:2]
	}
	place := rapid.SampledFrom(k.places(g)).Draw(t, "place")
	labels := rapid.SampledFrom([]map[string]string{nil, {"tier": "web"}, {"tier": "db", "env": "prod"}, {"env": "dev"}}).Draw(t, "labels")
	r := match.Request{
		Operation: rapid.SampledFrom(operations).Draw(t, "operation"), Resource: k.resource, Kind: k.gvk, Subresource: k.subresource,
		Namespace: place, DryRun: true, User: g.user,
	}
	if k.resource.Resource == "namespaces" {
		r.Namespace = ""
	}
	if r.Operation == registrationv1.Create {
		r.Object = k.object(g, g.prefix+"new", "", labels) // the URL names the namespace
		return operation{k, r}
	}
	r.OldObject = g.stored[k.key(place)]
	r.Name = r.OldObject.GetName()
	if r.Operation == registrationv1.Update {
		r.Object = r.OldObject.DeepCopy()
		if k.subresource == "" { // writing a subresource leaves labels alone
			r.Object.SetLabels(labels)
		}
	}
	return operation{k, r}
}

func (o operation) send(g *ground) error {
	r, dryRun, ctx := o.request, []string{metav1.DryRunAll}, context.Background()
	api := g.dynamic.Resource(r.Resource).Namespace(r.Namespace)
	var subresources []string
	if r.Subresource != "" {
		subresources = []string{r.Subresource}
	}
	var err error
	switch r.Operation {
	case registrationv1.Create:
		_, err = api.Create(ctx, r.Object, metav1.CreateOptions{DryRun: dryRun}, subresources...)
	case registrationv1.Update:
		_, err = api.Update(ctx, r.Object, metav1.UpdateOptions{DryRun: dryRun}, subresources...)
	case registrationv1.Delete:
		err = api.Delete(ctx, r.Name, metav1.DeleteOptions{DryRun: dryRun}, subresources...)
	default:
		err = errors.New("no such operation")
	}
	return err
}
