// Package drift tells in what an object differs from the manifest that it was made
// of, who made it so, and what would put it right.
//
// It asks no cluster, and does not look at what a manifest leaves open: defaults,
// status, and what others add.
package drift

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Field is a field that a manifest sets, and that an object has otherwise.
type Field struct {
	// Path is such as spec.template.spec.containers[name=app].image.
	Path string
	// Want is what the manifest says, and Have what the object has; Have is nil when
	// it does not have the field.
	Want, Have any
	// Owner is who has set the field as it is; the zero value when nobody has it.
	Owner Owner
	// Secret says that the values must not be shown.
	Secret bool

	owners []Owner
	// at leads to the field in the object: field names and indices of lists. An index
	// that is the length of its list stands for a new item.
	at []any
}

// Of finds the fields that a manifest sets and a live object has otherwise. Those
// that whoever sent the manifest owns are no drift: the API server or a webhook has
// made of them what they are.
func Of(manifest, live *unstructured.Unstructured, sender string) []Field {
	return slices.DeleteFunc(All(manifest, live), func(f Field) bool {
		return slices.ContainsFunc(f.owners, func(o Owner) bool { return o.Manager == sender && o.Subresource == "" })
	})
}

// All finds the fields that a manifest sets and a live object has otherwise,
// whoever made them so.
func All(manifest, live *unstructured.Unstructured) []Field {
	want := Normal(manifest)
	if covers(want.Object, live.Object) {
		return nil
	}
	c := &comparison{known: ownersOf(live), secret: manifest.GetKind() == "Secret"}
	for _, name := range slices.Sorted(maps.Keys(want.Object)) {
		c.walk(place{}.field(name), want.Object[name], live.Object[name])
	}
	return c.found
}

// covers reports whether an object has all that a manifest sets, in the same order.
// It is cheap, and true of most objects.
func covers(want, have any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		h, ok := have.(map[string]any)
		for name, v := range want {
			if v == nil {
				continue
			}
			if inner, found := h[name]; !ok || !found || !covers(v, inner) {
				return false
			}
		}
		return ok
	case []any:
		h, ok := have.([]any)
		if !ok && have != nil || len(h) != len(want) {
			return false
		}
		for i := range want {
			if !covers(want[i], h[i]) {
				return false
			}
		}
		return true
	}
	return equal(want, have)
}

// equal compares scalars; numbers by their value.
func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// comparison looks for the differences of two objects.
type comparison struct {
	known  owners
	secret bool // of a Secret's data
	found  []Field
}

// place is where something is in the object: for owners, and for those who put it
// right.
type place struct {
	path fieldpath.Path
	at   []any
}

func (p place) field(name string) place {
	return place{append(slices.Clone(p.path), fieldpath.PathElement{FieldName: &name}), append(slices.Clone(p.at), name)}
}

func (p place) item(e fieldpath.PathElement, i int) place {
	return place{append(slices.Clone(p.path), e), append(slices.Clone(p.at), i)}
}

func (c *comparison) walk(p place, want, have any) {
	switch want := want.(type) {
	case nil:
		return
	case map[string]any:
		if have, ok := have.(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(want)) {
				c.walk(p.field(name), want[name], have[name])
			}
			return
		}
	case []any:
		have, ok := have.([]any)
		if ok || have == nil {
			c.list(p, want, have)
			return
		}
	default:
		if equal(want, have) {
			return
		}
	}
	c.differs(p, want, have)
}

func (c *comparison) differs(p place, want, have any) {
	f := Field{Path: text(p.path), Want: want, Have: have, at: p.at, owners: c.known.of(p.path)}
	f.Secret = c.secret && f.at[0] == "data"
	switch {
	case len(f.owners) > 0:
		f.Owner = f.owners[0]
	case have != nil && f.Path == "spec.replicas":
		// The API server takes the field from its owner when scale is patched, and
		// gives it to nobody (seen with 1.36). Autoscalers send updates.
		f.Owner = Owner{Operation: "Update", Subresource: "scale"}
	}
	c.found = append(c.found, f)
}

// list compares lists by what their items are told apart by: keys, their values, or
// else where they stand.
func (c *comparison) list(p place, want, have []any) {
	if len(want) == 0 && len(have) == 0 {
		return
	}
	if covers(want, have) {
		return
	}
	keys, set := c.known.keys(p.path)
	switch {
	case len(keys) > 0:
		c.keyed(p, keys, want, have)
	case set:
		end := len(have)
		for _, w := range want {
			if !slices.ContainsFunc(have, func(h any) bool { return equal(w, h) }) {
				v := value.NewValueInterface(w)
				c.differs(p.item(fieldpath.PathElement{Value: &v}, end), w, nil)
				end++
			}
		}
	case len(want) != len(have):
		c.differs(p, want, asList(have))
	default:
		for i := range want {
			c.walk(p.item(fieldpath.PathElement{Index: &i}, i), want[i], have[i])
		}
	}
}

// asList is a list in an interface, and nil for none.
func asList(l []any) any {
	if l == nil {
		return nil
	}
	return l
}

// keyed compares the items of a list that have the same key. Two items of one key
// stand for themselves in their order.
func (c *comparison) keyed(p place, keys []string, want, have []any) {
	taken, end := make([]bool, len(have)), len(have)
	for _, w := range want {
		wm, ok := w.(map[string]any)
		if !ok {
			c.differs(p, want, asList(have))
			return
		}
		i := slices.IndexFunc(have, func(h any) bool { return matches(wm, h, keys) })
		for i >= 0 && taken[i] {
			next := slices.IndexFunc(have[i+1:], func(h any) bool { return matches(wm, h, keys) })
			if next < 0 {
				i = -1
				break
			}
			i += 1 + next
		}
		if i < 0 {
			c.differs(p.item(keyOf(wm, keys), end), w, nil)
			end++
			continue
		}
		taken[i] = true
		c.walk(p.item(keyOf(have[i].(map[string]any), keys), i), w, have[i])
	}
}

// matches reports whether an item has the key of another one, as far as that says
// it. Ports leave out their protocol, which is TCP then.
func matches(want map[string]any, have any, keys []string) bool {
	h, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for _, k := range keys {
		w := want[k]
		if w == nil && k == "protocol" {
			w = "TCP"
		}
		if w != nil && !equal(w, h[k]) {
			return false
		}
	}
	return true
}

func keyOf(item map[string]any, keys []string) fieldpath.PathElement {
	var l value.FieldList
	for _, k := range keys {
		if v := item[k]; v != nil {
			l = append(l, value.Field{Name: k, Value: value.NewValueInterface(v)})
		}
	}
	l.Sort()
	return fieldpath.PathElement{Key: &l}
}

// text writes a path as people do: spec.ports[name=http].port, and
// metadata.annotations["a.b/c"] where a name has dots.
func text(p fieldpath.Path) string {
	var b strings.Builder
	for _, e := range p {
		switch {
		case e.FieldName != nil && strings.ContainsAny(*e.FieldName, `./[]" `):
			b.WriteString(`["` + *e.FieldName + `"]`)
		case e.FieldName != nil:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(*e.FieldName)
		case e.Key != nil:
			var parts []string
			for _, f := range *e.Key {
				parts = append(parts, f.Name+"="+strings.Trim(value.ToString(f.Value), `"`))
			}
			b.WriteString("[" + strings.Join(parts, ",") + "]")
		case e.Value != nil:
			b.WriteString("[" + value.ToString(*e.Value) + "]")
		case e.Index != nil:
			b.WriteString(e.String())
		}
	}
	return b.String()
}
