package expr

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
)

// compilePath compiles an expression that only follows names, as most do. What
// it does is what CEL would; a test compares them. It is not ok for all others,
// and for most that have a fault, of which CEL tells.
func (e *Env) compilePath(text string) (program *Program, fault *Error, ok bool) {
	if text == "" || !isWord(text[0]) || text[0] >= '0' && text[0] <= '9' {
		return nil, nil, false
	}
	parts, end := e.chain(text, 0)
	if end != len(text) || len(parts) < 2 {
		return nil, nil, false
	}
	t := e.root.typ
	for i, p := range parts {
		next, ok := t.below(p)
		switch {
		case !ok && i > 0 && t.isObject() && !p.bracket:
			path := names(parts[:i])
			return nil, &Error{Offset: p.at, Path: path, Missing: p.name, Message: fmt.Sprintf("%s has no field %q", strings.Join(path, "."), p.name)}, true
		case !ok:
			return nil, nil, false
		}
		t = next
	}
	if t.isObject() {
		return nil, nil, false
	}
	ref := Ref{Path: names(parts), Shows: true}
	for i, p := range parts {
		if p.index >= 0 {
			ref.Path = ref.Path[:i]
			break
		}
	}
	return &Program{env: e, typ: t.cel, path: parts, refs: []Ref{ref}}, nil, true
}

// below returns the type of what a piece of a chain leads to.
func (t Type) below(p part) (Type, bool) {
	switch t.cel.Kind() {
	case types.DynKind:
		return Any, true
	case types.StructKind:
		if t.object == nil || p.bracket {
			return Type{}, false
		}
		return t.object.field(p.name)
	case types.MapKind:
		if p.index >= 0 {
			return Type{}, false
		}
		elem := Type{cel: t.cel.Parameters()[1]}
		if elem.cel.Kind() == types.StructKind {
			elem.object = t.object
		}
		return elem, true
	case types.ListKind:
		if p.index < 0 {
			return Type{}, false
		}
		return Type{cel: t.cel.Parameters()[0]}, true
	default: // nothing is below a scalar
		return Type{}, false
	}
}

// follow returns the value that a chain leads to.
func follow(values map[string]any, parts []part) (any, error) {
	var v any = values
	for i, p := range parts {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[p.name]
			if !ok || p.index >= 0 {
				return nil, pathError(parts[:i], p, fmt.Sprintf("has no field %q", p.name))
			}
			v = next
		case []any:
			switch {
			case p.index < 0:
				return nil, pathError(parts[:i], p, fmt.Sprintf("is a list: it has no field %q", p.name))
			case p.index >= len(at):
				return nil, pathError(parts[:i], p, fmt.Sprintf("has %d items, there is no [%d]", len(at), p.index))
			}
			v = at[p.index]
		default:
			want := "mapping"
			if p.index >= 0 {
				want = "list"
			}
			return nil, pathError(parts[:i], p, fmt.Sprintf("is no %s, but %s", want, describe(v)))
		}
	}
	return v, nil
}

func pathError(parts []part, p part, message string) error {
	var b strings.Builder
	for i, q := range parts {
		switch {
		case q.index >= 0:
			fmt.Fprintf(&b, "[%d]", q.index)
		case q.bracket:
			fmt.Fprintf(&b, "[%q]", q.name)
		case i > 0:
			b.WriteString("." + q.name)
		default:
			b.WriteString(q.name)
		}
	}
	return &Error{Offset: p.at, Message: b.String() + " " + message}
}

// describe says what kind of value v is; never the value, which may be secret.
func describe(v any) string {
	t, _ := adapter{}.NativeToValue(v).Type().(*types.Type)
	if t == numberType {
		t = types.DoubleType
	}
	return Type{cel: t}.About()
}
