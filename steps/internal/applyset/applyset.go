// Package applyset knows kubectl's convention for objects that are applied, and pruned,
// as one set: a label on each member, and a parent object that says where they are
// (KEP-3659, k8s.io/kubectl pkg/cmd/apply).
//
// It asks no API server.
package applyset

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// The labels and annotations of the convention.
const (
	// PartOf is the label of a member; its value is the set's ID.
	PartOf = "applyset.kubernetes.io/part-of"

	idLabel         = "applyset.kubernetes.io/id"
	toolingKey      = "applyset.kubernetes.io/tooling"
	kindsKey        = "applyset.kubernetes.io/contains-group-kinds"
	namespacesKey   = "applyset.kubernetes.io/additional-namespaces"
	tool            = "kplan"
	tooling         = tool + "/v1.0.0" // of what is written, not of the program: a new kplan changes no parent
	planAnnotation  = "kplan.dev/plan"
	stepAnnotation  = "kplan.dev/step"
	parentKind      = "Secret" // what kubectl takes for a set that is given by name alone
	longestReadable = 200
)

// FieldManager owns what kplan writes of a parent.
const FieldManager = "kplan-applyset"

// Set is the set of one step. Namespace and Name are those of its parent, a Secret.
type Set struct {
	Namespace, Name string
	plan, step      string
}

// Of is the set of a step that prunes, where namespace is that of objects which name
// none: as kubectl has it, the parent is beside them.
func Of(planName string, step plan.Step, namespace string) Set {
	return Set{Namespace: namespace, Name: parentName(planName, step.Name), plan: planName, step: step.Name}
}

var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// parentName is one that no other step has. A dot parts plan and step, since the name
// of neither has one that is left as it is.
func parentName(planName, step string) string {
	clean := func(s string) string { return strings.Trim(notInName.ReplaceAllString(strings.ToLower(s), "-"), "-") }
	name := "kplan-" + clean(planName) + "." + clean(step)
	if clean(planName) == planName && clean(step) == step && planName != "" && step != "" && len(name) <= longestReadable {
		return name
	}
	sum := sha256.Sum256([]byte(planName + "\x00" + step))
	name = "kplan-" + clean(planName) + "-" + clean(step)
	return strings.Trim(name[:min(len(name), longestReadable)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// ID is the set's, made of where its parent is.
func (s Set) ID() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{s.Name, s.Namespace, parentKind, ""}, ".")))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// Label makes an object a member.
func (s Set) Label(u *unstructured.Unstructured) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[PartOf] = s.ID()
	u.SetLabels(labels)
}

// Content is where members are: of these kinds, in these namespaces.
type Content struct {
	Kinds      map[schema.GroupKind]bool
	Namespaces map[string]bool
}

// NewContent has nothing in it.
func NewContent() Content {
	return Content{Kinds: map[schema.GroupKind]bool{}, Namespaces: map[string]bool{}}
}

// With is a content that has another one's too.
func (c Content) With(other Content) Content {
	both := Content{Kinds: maps.Clone(c.Kinds), Namespaces: maps.Clone(c.Namespaces)}
	maps.Copy(both.Kinds, other.Kinds)
	maps.Copy(both.Namespaces, other.Namespaces)
	return both
}

// Equal reports whether two contents are the same.
func (c Content) Equal(other Content) bool {
	return maps.Equal(c.Kinds, other.Kinds) && maps.Equal(c.Namespaces, other.Namespaces)
}

// Parent is the set's parent with a content, as it is applied.
func (s Set) Parent(c Content) *unstructured.Unstructured {
	var names []string
	for gk := range c.Kinds {
		names = append(names, gk.String())
	}
	slices.Sort(names)
	namespaces := maps.Clone(c.Namespaces)
	delete(namespaces, s.Namespace)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": parentKind,
		"metadata": map[string]any{
			"name": s.Name, "namespace": s.Namespace,
			"labels": map[string]any{idLabel: s.ID()},
			"annotations": map[string]any{
				toolingKey: tooling, kindsKey: strings.Join(names, ","), namespacesKey: strings.Join(slices.Sorted(maps.Keys(namespaces)), ","),
				planAnnotation: s.plan, stepAnnotation: s.step,
			},
		},
	}}
}

// Read is the content that a live parent names. It refuses one that is another tool's,
// as the convention demands, or no parent at all.
func (s Set) Read(parent *unstructured.Unstructured) (Content, error) {
	c := NewContent()
	annotations := parent.GetAnnotations()
	named := "the Secret " + s.Namespace + "/" + s.Name
	switch by := annotations[toolingKey]; {
	case by == "" || parent.GetLabels()[idLabel] == "":
		return c, runner.WithHint(runner.Permanent(fmt.Errorf("%s is there, and is no parent of an apply set", named)), "delete it, or give the step another name")
	case by != tool && !strings.HasPrefix(by, tool+"/"):
		return c, runner.WithHint(runner.Permanent(fmt.Errorf("the apply set of %s is managed by %s", named, by)),
			"leave it to that tool, or set its annotation "+toolingKey+" to "+tooling)
	case parent.GetLabels()[idLabel] != s.ID():
		return c, runner.Permanent(fmt.Errorf("%s has the ID of another apply set: %s rather than %s", named, parent.GetLabels()[idLabel], s.ID()))
	}
	for name := range strings.SplitSeq(annotations[kindsKey], ",") {
		if name != "" {
			c.Kinds[schema.ParseGroupKind(name)] = true
		}
	}
	for name := range strings.SplitSeq(annotations[namespacesKey], ",") {
		if name != "" {
			c.Namespaces[name] = true
		}
	}
	c.Namespaces[s.Namespace] = true
	return c, nil
}
