package kinds

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Definitions is the kind of CustomResourceDefinitions.
var Definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Definition is what a CustomResourceDefinition says of its kind.
type Definition struct {
	schema.GroupKind
	// Name is PLURAL.GROUP.
	Name, Plural, Singular string
	ShortNames             []string
	Namespaced             bool
	// Versions are those that are served, and Storage the one that is stored.
	Versions []string
	Storage  string
	// Observed are the versions whose status has observedGeneration.
	Observed []string
}

// IsDefinition reports whether an object is a CustomResourceDefinition.
func IsDefinition(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == Definitions.GroupKind()
}

// DefinitionOf reads a CustomResourceDefinition. What it does not say is empty.
func DefinitionOf(crd *unstructured.Unstructured) Definition {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, path...)...)
		return s
	}
	d := Definition{
		GroupKind: schema.GroupKind{Group: text("group"), Kind: text("names", "kind")},
		Name:      crd.GetName(), Plural: text("names", "plural"), Singular: text("names", "singular"),
		Namespaced: text("scope") == "Namespaced",
	}
	d.ShortNames, _, _ = unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		if served, _ := m["served"].(bool); served && name != "" {
			d.Versions = append(d.Versions, name)
		}
		if _, has, _ := unstructured.NestedMap(m, "schema", "openAPIV3Schema", "properties", "status", "properties", "observedGeneration"); has {
			d.Observed = append(d.Observed, name)
		}
		if stored, _ := m["storage"].(bool); stored {
			d.Storage = name
		}
	}
	return d
}

// SchemaOf is the OpenAPI schema that a CustomResourceDefinition has for a version; nil
// when it has none.
func SchemaOf(crd *unstructured.Unstructured, version string) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, _ := v.(map[string]any); m["name"] == version {
			schema, _, _ := unstructured.NestedMap(m, "schema", "openAPIV3Schema")
			return schema
		}
	}
	return nil
}

// Kinds are those that the API server serves by the definition.
func (d Definition) Kinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, version := range d.Versions {
		kinds = append(kinds, d.WithVersion(version))
	}
	return kinds
}

// Custom reports whether the kinds of an API group are custom resources, or those of
// an aggregated API server: none of Kubernetes' own.
func Custom(group string) bool {
	return !scheme.Scheme.IsGroupRegistered(group) && group != Definitions.Group && group != "apiregistration.k8s.io"
}
