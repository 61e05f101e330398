package preflight

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// brings is what the cluster has once a step is done.
type brings struct {
	kinds      map[schema.GroupKind]bool
	types      map[string]bool // as kubectl takes them, without a version
	namespaces map[string]bool
	// definitions are the CRDs that the step waits for, by PLURAL.GROUP.
	definitions map[string]bool
}

func broughtBy(s *step) *brings {
	b := &brings{map[schema.GroupKind]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, o := range s.objects {
		switch {
		case kinds.IsDefinition(o.Unstructured):
			b.define(kinds.DefinitionOf(o.Unstructured))
		case o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}:
			b.namespaces[o.GetName()] = true
		}
		if s.Helm != nil && s.Helm.CreateNamespace {
			b.namespaces[o.GetNamespace()] = true
		}
	}
	if s.Wait != nil && s.Wait.For != string(plan.ConditionDelete) {
		typ, name, _ := strings.Cut(strings.ToLower(s.Wait.Resource), "/")
		switch typ, _, _ = strings.Cut(typ, "."); typ {
		case "crd", "crds", "customresourcedefinition", "customresourcedefinitions":
			plural, group, _ := strings.Cut(name, ".")
			b.definitions[name] = true
			b.types[plural], b.types[plural+"."+group] = true, true
		case "ns", "namespace", "namespaces":
			b.namespaces[name] = true
		}
	}
	return b
}

// define takes note of a CRD.
func (b *brings) define(d kinds.Definition) {
	b.kinds[d.GroupKind] = true
	for _, name := range append(d.ShortNames, d.Plural, d.Singular, strings.ToLower(d.Kind)) {
		b.types[name], b.types[name+"."+d.Group] = true, true
	}
}

// names reports whether a type argument of kubectl means a kind that is brought.
func (b *brings) names(typ string) bool {
	full, resource := schema.ParseResourceArg(strings.ToLower(typ))
	if b.types[resource.String()] {
		return true
	}
	return full != nil && b.types[full.GroupResource().String()]
}

// defines reports whether the step brings a kind, or waits for its definition.
func (b *brings) defines(kind schema.GroupKind) bool { return b.kinds[kind] || b.waitsFor(kind) }

// waitsFor reports whether the step waits for the definition of a kind.
func (b *brings) waitsFor(kind schema.GroupKind) bool {
	if len(b.definitions) == 0 {
		return false
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	return b.definitions[plural.Resource+"."+kind.Group]
}
