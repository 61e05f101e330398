package expr

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// walker finds the names that an expression uses.
type walker struct {
	ast    *ast.AST
	root   *Object
	source string
	moved  offsets
	refs   []Ref
}

// inside is where a walker is.
type inside struct {
	// bound are the variables of the macros around.
	bound []string
	// choice says that a value around decides what the result is, and is no part of it.
	choice bool
}

func refs(a *ast.AST, root *Object, source string, moved offsets) []Ref {
	w := walker{ast: a, root: root, source: source, moved: moved}
	w.walk(a.Expr(), inside{})
	return w.refs
}

func (w *walker) walk(e ast.Expr, in inside) {
	in.choice = in.choice || decides(w.ast.GetType(e.ID()))
	if path, from, ok := w.chain(e, in.bound); ok {
		w.add(path, from, !in.choice, e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly())
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		w.walk(e.AsSelect().Operand(), in)
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			w.walk(c.Target(), in)
		}
		for i, arg := range c.Args() {
			picks := c.FunctionName() == operators.Conditional && i == 0 || c.FunctionName() == operators.Index && i == 1 || c.FunctionName() == "size"
			w.walk(arg, inside{in.bound, in.choice || picks})
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			w.walk(item, in)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.walk(entry.AsMapEntry().Key(), in)
			w.walk(entry.AsMapEntry().Value(), in)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		w.walk(c.IterRange(), in)
		w.walk(c.AccuInit(), in)
		in.bound = slices.Concat(in.bound, []string{c.IterVar(), c.IterVar2(), c.AccuVar()})
		w.walk(c.LoopCondition(), in)
		w.walk(c.LoopStep(), in)
		w.walk(c.Result(), in)
	case ast.StructKind:
		w.add([]string{e.AsStruct().TypeName()}, e.ID(), !in.choice, false)
	default: // literals have no names
	}
}

// decides tells values that are true or false.
func decides(t *types.Type) bool { return t != nil && t.Kind() == types.BoolKind }

// add takes note of a path: shows says that its value is part of the result.
func (w *walker) add(path []string, id int64, shows, tested bool) {
	for i, known := range w.refs {
		if slices.Equal(known.Path, path) {
			w.refs[i].Shows = known.Shows || shows
			w.refs[i].Tested = known.Tested || tested
			return
		}
	}
	r := Ref{Path: path, Shows: shows, Tested: tested}
	if at, ok := w.ast.SourceInfo().GetOffsetRange(id); ok {
		r.Offset = w.moved.back(byteOffset(w.source, int(at.Start)))
	}
	w.refs = append(w.refs, r)
}

// chain returns the path of an expression that follows names from one of the root's
// fields and no variable of a macro, and the node of that first name.
func (w *walker) chain(e ast.Expr, bound []string) (path []string, first int64, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		if _, known := w.root.field(name); !known || slices.Contains(bound, name) {
			return nil, 0, false
		}
		return []string{name}, e.ID(), true
	case ast.SelectKind:
		s := e.AsSelect()
		path, first, ok = w.chain(s.Operand(), bound)
		return append(path, s.FieldName()), first, ok
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[1].Kind() != ast.LiteralKind {
			return nil, 0, false
		}
		key, isText := c.Args()[1].AsLiteral().(types.String)
		if !isText {
			return nil, 0, false
		}
		path, first, ok = w.chain(c.Args()[0], bound)
		return append(path, string(key)), first, ok
	default: // other kinds follow no names
		return nil, 0, false
	}
}

// strangers finds the first name that an expression uses and is none of the given
// ones. Names that functions are called by, such as sets.contains, are left alone.
func strangers(tree *ast.AST, source string, names []string) error {
	all := NewObject("", func(name string) (Type, bool) { return Any, true })
	for _, r := range refs(tree, all, source, nil) {
		if name := r.Path[0]; !slices.Contains(names, name) && !slices.Contains(namespaces, name) {
			return &Error{Offset: r.Offset, Message: fmt.Sprintf("the name %q is not known", name), Missing: name}
		}
	}
	return nil
}

// namespaces are what the names of functions begin with, and the names of types.
var namespaces = []string{
	"sets", "strings", "math", "base64", "lists", "optional", "cel", "ip", "cidr", "format", "k8s", "json", "google",
	"int", "uint", "double", "bool", "string", "bytes", "list", "map", "type", "null_type",
}

// byteOffset returns the offset in bytes of a character, counted from 0.
func byteOffset(s string, char int) int {
	for i := range s {
		if char == 0 {
			return i
		}
		char--
	}
	return len(s)
}

// OneOf is the type of a text that is always one of the given ones: an expression
// that compares it with another one is wrong.
func OneOf(values ...string) Type { return Type{cel: String.cel, values: values} }

// checkWords looks for comparisons that never hold.
func (e *Env) checkWords(p *Program, source string, moved offsets) error {
	var fault *Error
	tree := p.ast.NativeRep()
	w := walker{ast: tree, root: e.root}
	compare := func(name, word ast.Expr) {
		path, _, ok := w.chain(name, nil)
		if !ok || fault != nil || word.Kind() != ast.LiteralKind {
			return
		}
		text, isText := word.AsLiteral().(types.String)
		t, known := e.typeOf(partsOf(path))
		if !isText || !known || len(t.values) == 0 || slices.Contains(t.values, string(text)) {
			return
		}
		fault = &Error{Path: path, Word: string(text), Words: t.values, Message: "the text is never that"}
		if at, ok := tree.SourceInfo().GetOffsetRange(word.ID()); ok {
			fault.Offset = moved.back(byteOffset(source, int(at.Start)))
		}
	}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind || len(x.AsCall().Args()) != 2 {
			return
		}
		a, b := x.AsCall().Args()[0], x.AsCall().Args()[1]
		switch x.AsCall().FunctionName() {
		case operators.Equals, operators.NotEquals:
			compare(a, b)
			compare(b, a)
		case operators.In:
			if b.Kind() == ast.ListKind {
				for _, item := range b.AsList().Elements() {
					compare(a, item)
				}
			}
		}
	}))
	if fault != nil {
		return fault
	}
	return nil
}

// partsOf makes a chain of names.
func partsOf(path []string) []part {
	parts := make([]part, len(path))
	for i, name := range path {
		parts[i] = part{name: name, index: -1}
	}
	return parts
}
