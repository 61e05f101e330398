package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
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
		for len(text) < int(n) {
			text += "x"
		}
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
	if most, ok := number(s["maximum"]); ok && n > most {
		n = most
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
