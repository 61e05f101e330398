package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan/finding"
)

// condition is one of an object's status.conditions.
type condition struct {
	typ, status, reason, message string
	since                        time.Time
}

// conditionOf is the condition of a type; the zero value when the object has none.
func conditionOf(o *unstructured.Unstructured, typ string) condition {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["type"] != typ {
			continue
		}
		c := condition{typ: typ}
		c.status, _ = m["status"].(string)
		c.reason, _ = m["reason"].(string)
		c.message, _ = m["message"].(string)
		if text, ok := m["lastTransitionTime"].(string); ok {
			c.since, _ = time.Parse(time.RFC3339, text)
		}
		return c
	}
	return condition{}
}

// why is the message of a condition, or its reason.
func (c condition) why() string {
	if c.message != "" {
		return clause(c.message)
	}
	return c.reason
}

// evidence says how the condition stands.
func (c condition) evidence(of string) finding.Evidence {
	if c.typ == "" {
		return finding.Evidence{Object: of, Field: "status.conditions", Value: "not set"}
	}
	parts := slices.DeleteFunc([]string{c.status, c.reason, clause(c.message)}, func(s string) bool { return s == "" })
	return finding.Evidence{Object: of, Field: "status.conditions[" + c.typ + "]", Value: strings.Join(parts, ": ")}
}

// field is a text of an object; "" when it is not there.
func field(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// nameOf names an object that was read.
func nameOf(o *unstructured.Unstructured) string {
	return object(o.GetKind(), o.GetNamespace(), o.GetName())
}

// clause is a text of somebody else as one clause: one line of at most 300 characters
// without a final period.
func clause(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// owned reports whether an object is of a kind's object of a name.
func owned(o metav1.Object, kind, name string) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == kind && r.Name == name })
}

// several lists up to three names, and how many more there are.
func several(names []string) string {
	const most = 3
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// describe is the command that shows all of an object.
func describe(kind, namespace, name string) string {
	cmd := "kubectl describe " + strings.ToLower(kind)
	if namespace != "" {
		cmd += " -n " + namespace
	}
	return cmd + " " + name
}
