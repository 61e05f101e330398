package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// Targets lists the resources for whose creation the webhook is called by
// name. Rules with wildcards or for subresources name none.
func Targets(e webhook.Entry) []schema.GroupVersionResource {
	var ts []schema.GroupVersionResource
	for _, r := range e.Rules {
		if !creates(r) {
			continue
		}
		for _, g := range r.APIGroups {
			for _, v := range r.APIVersions {
				for _, res := range r.Resources {
					if !plain(g) || !plain(v) || !plain(res) {
						continue
					}
					ts = append(ts, schema.GroupVersionResource{Group: g, Version: v, Resource: res})
				}
			}
		}
	}
	return ts
}

// creates reports whether a rule names creations.
func creates(r admissionv1.RuleWithOperations) bool {
	return slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)
}

// maxRules is how many rules people are told.
const maxRules = 3

// rules says what a webhook is called for: CREATE,UPDATE of widgets.example.io.
func rules(e webhook.Entry) string {
	var texts []string
	for _, r := range e.Rules {
		var verbs, resources []string
		for _, o := range r.Operations {
			verbs = append(verbs, string(o))
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				name, sub, is := strings.Cut(resource, "/")
				if resource = (schema.GroupResource{Group: group, Resource: name}).String(); is {
					resource += "/" + sub
				}
				resources = append(resources, resource)
			}
		}
		texts = append(texts, strings.Join(verbs, ",")+" of "+listed(resources, " and "))
	}
	return listed(texts, "; ")
}

// listed joins the first of some texts, and says how many more there are.
func listed(texts []string, sep string) string {
	if more := len(texts) - maxRules; more > 0 {
		return strings.Join(texts[:maxRules], sep) + fmt.Sprintf("%sand %d more", strings.TrimSuffix(sep, "and "), more)
	}
	return strings.Join(texts, sep)
}

// plain reports whether a part of a rule is a name, and no wildcard or subresource.
func plain(s string) bool { return !strings.ContainsAny(s, "*/") }

// Labels are labels that satisfy a selector; an error says that there are none
// that can be made up.
func Labels(s *metav1.LabelSelector) (map[string]string, error) {
	made := map[string]string{}
	if s == nil {
		return made, nil
	}
	maps.Copy(made, s.MatchLabels)
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			if len(e.Values) > 0 {
				made[e.Key] = e.Values[0]
			}
		case metav1.LabelSelectorOpExists:
			if _, ok := made[e.Key]; !ok {
				made[e.Key] = ""
			}
		default: // NotIn and DoesNotExist are satisfied by labels that are not there
		}
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, err
	}
	if !sel.Matches(labels.Set(made)) {
		return nil, fmt.Errorf("no labels satisfy the selector %s", metav1.FormatLabelSelector(s))
	}
	return made, nil
}

// Sample makes the smallest value that fits a schema: of an object the required
// fields only. The schema is one of a CustomResourceDefinition, as JSON.
//
// What a schema says by pattern, format or CEL rules is beyond it; the API
// server says so by refusing the value.
func Sample(s map[string]any) any {
	if d, ok := s["default"]; ok {
		return d
	}
	if enum, ok := s["enum"].([]any); ok && len(enum) > 0 {
		return enum[0]
	}
	switch s["type"] {
	case "object":
		return sampleObject(s)
	case "array":
		items, _ := s["items"].(map[string]any)
		n, _ := number(s["minItems"])
		out := make([]any, 0, int(n))
		for range int(n) {
			out = append(out, Sample(items))
		}
		return out
	case "string":
		n, _ := number(s["minLength"])
		text := "kplan-probe"
		text += strings.Repeat("x", max(int(n)-len(text), 0))
		if most, ok := number(s["maxLength"]); ok && len(text) > int(most) {
			text = text[:int(most)]
		}
		return text
	case "integer":
		return int64(least(s))
	case "number":
		return least(s)
	case "boolean":
		return false
	}
	if b, _ := s["x-kubernetes-int-or-string"].(bool); b {
		return int64(1)
	}
	return map[string]any{}
}

func sampleObject(s map[string]any) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, r := range required {
		name, _ := r.(string)
		if p, ok := properties[name].(map[string]any); ok {
			out[name] = Sample(p)
		}
	}
	return out
}

func least(s map[string]any) float64 {
	n, ok := number(s["minimum"])
	if !ok {
		n = 1
	}
	if b, _ := s["exclusiveMinimum"].(bool); b {
		n++
	}
	if most, ok := number(s["maximum"]); ok {
		n = min(n, most)
	}
	return n
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

var (
	crdsGVR       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespacesGVR = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsGVR = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// sampleObjects makes objects that the webhook is called for, of different kinds.
// Without any the outcome says why.
func (p *Probe) sampleObjects(ctx context.Context, client dynamic.Interface) ([]*unstructured.Unstructured, Outcome, error) {
	labels, err := Labels(p.entry.ObjectSelector)
	if err != nil {
		return nil, unproven(err.Error()), nil
	}
	targets := Targets(p.entry)
	if len(targets) == 0 {
		if !slices.ContainsFunc(p.entry.Rules, creates) {
			return nil, unproven("it is called for " + rules(p.entry) + ", and a dry run can only create"), nil
		}
		targets = append(targets, configMapsGVR) // rules with wildcards may mean what every cluster has
	}
	reason := missing("no kind that it is called for is served: " + targets[0].GroupResource().String())
	if time.Since(p.began) > unservedGrace {
		reason.State = Unproven
	}
	var samples []*unstructured.Unstructured
	for _, t := range targets {
		m := p.served(t)
		if m == nil {
			continue
		}
		u, err := p.sampleOf(ctx, client, m)
		if err != nil {
			return nil, Outcome{}, err
		}
		u.SetLabels(labels)
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			name, why, err := p.namespace(ctx, client)
			if err != nil {
				return nil, Outcome{}, err
			}
			if name == "" {
				reason = reason.or(why)
				continue
			}
			u.SetNamespace(name)
		}
		if d, err := p.prepare(ctx, u); err != nil || d.verdict.Outcome == match.Skips {
			reason = reason.or(unproven(fmt.Sprintf("it is called for %s; to create %s was tried: %s", rules(p.entry), t.GroupResource(), d.verdict.Reason)))
			continue
		}
		if samples = append(samples, u); len(samples) == maxSamples {
			break
		}
	}
	return samples, reason, nil
}

// served finds the mapping of a resource; nil when the API server does not serve it.
func (p *Probe) served(r schema.GroupVersionResource) *meta.RESTMapping {
	gvk, err := p.config.Mapper.KindFor(r)
	if err != nil {
		return nil
	}
	m, err := p.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil || m.Resource != r {
		return nil
	}
	return m
}

// sampleOf makes an object with the required fields of its kind, as far as they
// can be read.
func (p *Probe) sampleOf(ctx context.Context, client dynamic.Interface, m *meta.RESTMapping) (*unstructured.Unstructured, error) {
	crd, err := client.Resource(crdsGVR).Get(ctx, m.Resource.Resource+"."+m.Resource.Group, metav1.GetOptions{})
	switch {
	case err == nil:
		fields, _ := Sample(schemaOf(crd, m.Resource.Version)).(map[string]any)
		return newObject(fields, m.GroupVersionKind), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// Kubernetes' own kinds have none, whoever asks.
		p.schemaless = p.schemaless || (apierrors.IsForbidden(err) && !scheme.Scheme.IsGroupRegistered(m.Resource.Group))
		return newObject(nil, m.GroupVersionKind), nil
	}
	return nil, err
}

// newObject is an object with the given fields. Its name is one that nothing has.
func newObject(fields map[string]any, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	delete(fields, "metadata")
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	u.SetGenerateName("kplan-probe-")
	return u
}

// schemaOf is the schema of one version of a CustomResourceDefinition.
func schemaOf(crd *unstructured.Unstructured, version string) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if m["name"] == version {
			s, _, _ := unstructured.NestedMap(m, "schema", "openAPIV3Schema")
			return s
		}
	}
	return map[string]any{"type": "object"}
}

// namespace picks one in which the webhook is called: that of its Service if it
// is, else any other. Without one the outcome says why.
func (p *Probe) namespace(ctx context.Context, client dynamic.Interface) (name string, why Outcome, err error) {
	selector := p.entry.NamespaceSelector
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", unproven(err.Error()), nil
	}
	list, err := client.Resource(namespacesGVR).List(ctx, metav1.ListOptions{LabelSelector: s.String()})
	switch {
	case ctx.Err() != nil:
		return "", Outcome{}, context.Cause(ctx)
	case apierrors.IsForbidden(err):
		return "", Outcome{State: Unproven, Reason: "namespaces may not be listed", Forbidden: true}, nil
	case err != nil:
		return "", Outcome{}, err
	}
	for _, ns := range list.Items {
		switch {
		case ns.GetDeletionTimestamp() != nil:
		case p.entry.Client.Service != nil && ns.GetName() == p.entry.Client.Service.Namespace:
			return ns.GetName(), Outcome{}, nil
		case name == "":
			name = ns.GetName()
		}
	}
	return name, unproven("no namespace matches its namespaceSelector " + s.String()), nil
}
