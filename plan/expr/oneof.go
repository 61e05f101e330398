package expr

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// OneOf is the type of a text that is always one of the given ones: an expression
// that compares it with another one is wrong.
func OneOf(values ...string) Type { return Type{cel: String.cel, values: values} }

// checkWords looks for comparisons that never hold.
func (e *Env) checkWords(p *Program, source string, moved offsets) error {
	var fault *Error
	tree := p.ast.NativeRep()
	w := walker{ast: tree, root: e.root}
	compare := func(name, word ast.Expr) {
		path, _, ok := w.chain(name)
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
