package fields

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// Change is a field that is not the same in two objects.
type Change struct {
	Path fieldpath.Path
	// Before and After are the field's values; nil where it has none.
	Before, After any
	// Managers own the field in the live object, who wrote last first.
	Managers []Manager
}

// Text is the path as people write it.
func (c Change) Text() string { return Text(c.Path) }

// Unmet returns what a manifest sets and the live object does not have: Before is the
// live value, After the manifest's. shape is as in Set. What the API server adds or
// writes in another way, such as quantities, is no change. Managers are not filled in.
//
// A manifest that says less of a list or map that is replaced as a whole is a change,
// unless what it leaves out is known to come from the API server.
func Unmet(manifest, live *unstructured.Unstructured, shape *fieldpath.Set) []Change {
	return UnmetIn(manifest, live, shape, nil)
}

// UnmetIn is Unmet for a custom resource whose schema is known: the schema that its
// CustomResourceDefinition has for the version. It tells what the API server adds.
func UnmetIn(manifest, live *unstructured.Unstructured, shape *fieldpath.Set, schema map[string]any) []Change {
	c := comparison{builtIn: !kinds.Custom(manifest.GroupVersionKind().Group), kind: manifest.GetKind(), schema: schema}
	want := owned(manifest, shape)
	if c.secret() {
		want = decoded(want)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		has, present := live.Object[key]
		element := fieldpath.FieldNameElement(key)
		member, below := child(shape, element)
		c.value(fieldpath.Path{element}, want[key], has, present, member, below)
	}
	return c.changes
}

// comparison is one call of Unmet.
type comparison struct {
	builtIn bool // of Kubernetes' own kinds the defaults are known, and values that are zero are left out
	kind    string
	schema  map[string]any // of a custom resource; nil when it is not known
	changes []Change
}

func (c *comparison) secret() bool { return c.builtIn && c.kind == "Secret" }

func (c *comparison) differ(path fieldpath.Path, want, has any) {
	c.changes = append(c.changes, Change{Path: path.Copy(), Before: has, After: want})
}

func (c *comparison) value(path fieldpath.Path, want, has any, present bool, member bool, below *fieldpath.Set) {
	if !present && zero(want) {
		return
	}
	switch want := want.(type) {
	case map[string]any:
		fields, ok := has.(map[string]any)
		if !ok || below == nil && member && len(want) > 0 {
			c.whole(path, want, has)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			element := fieldpath.FieldNameElement(key)
			inner, present := fields[key]
			member, below := child(below, element)
			c.value(append(path, element), want[key], inner, present, member, below)
		}
	case []any:
		items, ok := has.([]any)
		keys := keysOf(below)
		if !ok || len(want) == 0 || !keys.some() {
			c.whole(path, want, has)
			return
		}
		c.list(path, want, items, keys, below)
	default:
		c.whole(path, want, has)
	}
}

// list compares the items of a list that has keys. Others may be among them, but
// their order must be the manifest's.
func (c *comparison) list(path fieldpath.Path, want, has []any, keys keys, below *fieldpath.Set) {
	there := keys.index(has)
	last, ordered := -1, true
	for i, element := range keys.align(want) {
		at, ok := there[element.String()]
		if !ok {
			c.differ(append(path, element), want[i], nil)
			continue
		}
		ordered = ordered && at > last
		last = at
		_, sub := child(below, element)
		if fields, ok := want[i].(map[string]any); ok {
			c.value(append(path, element), fields, has[at], true, true, cmpSet(sub))
		}
	}
	if !ordered {
		c.differ(path, want, has)
	}
}

// cmpSet is a set that is there: an item of a list is never one value.
func cmpSet(set *fieldpath.Set) *fieldpath.Set {
	if set == nil {
		return fieldpath.NewSet()
	}
	return set
}

func (c *comparison) whole(path fieldpath.Path, want, has any) {
	if !c.same(path, defaulted(want, schemaAt(c.schema, path)), has) {
		c.differ(path, want, has)
	}
}
