package load

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// maxText bounds the text that expressions make, in bytes.
const maxText = 8 << 20

// expander puts the values of expressions in their place. What it puts in is not
// looked at again: a value that has ${{ in it stays as it is.
type expander struct {
	*pass
	// scope is what expressions see; nil where only $${{ is understood, as in the
	// defaults of variables.
	scope *scope
	// static says what must be known when the file is read: "timeout"; "" when deferred
	// values may stand here.
	static string
	// skip says that expressions are checked, but not evaluated: of a step whose when
	// is false. Their values are deferred.
	skip bool
	// foreign says that the text is not the plan's own but that of a file which a step
	// names: none of its fields is the step's.
	foreign bool
	// secretAt are the paths where an expression reads a sensitive value, and whether
	// it gives it as it is.
	secretAt map[string]bool
}

// expand returns a copy of v with all expressions resolved.
func (x *expander) expand(v any, at path) any {
	switch v := v.(type) {
	case map[string]any:
		return x.expandMap(v, at)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = x.expand(e, append(at, i))
		}
		return list
	case string:
		if expr.Has(v) {
			return x.expandText(v, at)
		}
	}
	return v
}

func (x *expander) expandMap(v map[string]any, at path) map[string]any {
	m := make(map[string]any, len(v))
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if strings.Contains(strings.ReplaceAll(k, "$${{", ""), "${{") {
			x.ReportField(fault{Code: document.CodeExpression, At: at.Key(k), Hint: "use expressions in values only"}, "the name of a field cannot have an expression")
			m[k] = v[k]
			continue
		}
		m[k] = x.expand(v[k], append(at, k))
	}
	return m
}

// expandText resolves the expressions of one text. A text that is nothing but
// one expression takes the value with its type, any other one takes scalars
// only. $${{ stands for ${{ itself.
func (x *expander) expandText(text string, at path) any {
	segments, err := expr.Split(text)
	if err != nil {
		x.addText(at, text, asExprError(err), literalHint)
		return value.Invalid{}
	}
	var b strings.Builder
	bad, later := false, false
	for _, s := range segments {
		if !s.IsExpr {
			b.WriteString(s.Text)
			continue
		}
		alone := len(segments) == 1
		val := x.eval(s, at, text, alone)
		switch {
		case val == value.Invalid{}:
			bad = true
		case val == value.Deferred{}:
			later = true
		case alone:
			if x.sum.nodes += value.Count(val); !x.fits(at) {
				return value.Invalid{}
			}
			return val
		default:
			bad = !x.writeScalar(&b, val, at, text, s.Offset) || bad
		}
	}
	x.sum.text += b.Len()
	switch {
	case bad || !x.fits(at):
		return value.Invalid{}
	case later:
		return value.Deferred{}
	}
	return b.String()
}

const literalHint = "to mean the text ${{ itself, write $${{"

// fits reports whether the plan is not too large with what expressions put into it.
func (x *expander) fits(at path) bool {
	if x.sum.nodes <= document.MaxNodes && x.sum.text <= maxText {
		return true
	}
	if !x.sum.tooLarge { // said once, and nothing is put in any more
		x.sum.tooLarge = true
		x.Report(fault{Code: document.CodeExpression, At: at, Hint: "use smaller variables, or fewer of them"}, "the expressions make the plan too large: more than %d values or %d bytes of text", document.MaxNodes, maxText)
	}
	return false
}

func (x *expander) writeScalar(b *strings.Builder, v any, at path, text string, offset int) bool {
	if s, ok := v.(string); ok && x.sum.text+b.Len()+len(s) > maxText {
		x.sum.text += b.Len() + len(s)
		return x.fits(at)
	}
	switch v := v.(type) {
	case string:
		b.WriteString(v)
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case json.Number:
		b.WriteString(v.String())
	default:
		x.addText(at, text, &expr.Error{Offset: offset, Message: noText(v) + " cannot be put inside of a text"}, "let the expression be the whole value")
		return false
	}
	return true
}

// noText says what a value is that is no scalar.
func noText(v any) string {
	if v == nil {
		return "null"
	}
	return document.Describe(v)
}

// eval returns the value of one expression of a text: invalid when it has a fault,
// which is reported; deferred when it is known only when the step starts.
func (x *expander) eval(s expr.Segment, at path, text string, alone bool) any {
	if x.scope == nil {
		x.addText(at, text, &expr.Error{Offset: s.Offset, Message: "the default of a variable cannot have expressions"}, literalHint)
		return value.Invalid{}
	}
	if x.sum.tooLarge { // nothing is put in any more
		return value.Invalid{}
	}
	p, err := x.scope.env.Compile(s.Text)
	switch {
	case err != nil && x.Full():
		x.Skip(1) // to find what was meant takes time
		return value.Invalid{}
	case err != nil:
		e := *asExprError(err)
		e.Offset += s.Offset
		hint := x.explain(&e)
		x.addText(at, text, &e, hint)
		return value.Invalid{}
	}
	if !alone && !p.Type().IsScalar() {
		about := p.Type().About()
		if about == document.Describe(nil) {
			about = noText(nil)
		}
		x.addText(at, text, &expr.Error{Offset: s.Offset, Message: about + " cannot be put inside of a text"}, "let the expression be the whole value")
		return value.Invalid{}
	}
	if answer := x.uses(p, s, at, text); answer != nil {
		return answer
	}
	if !x.foreign && !x.mayShow(p, s, at, text) {
		return value.Invalid{}
	}
	v, err := p.Eval(x.scope.values, x.cost)
	if err != nil {
		e := *asExprError(err)
		e.Offset += s.Offset
		hint := x.explainOutput(p, &e)
		x.addText(at, text, &e, hint)
		return value.Invalid{}
	}
	x.keepSecret(p, v, at)
	return v
}

func asExprError(err error) *expr.Error {
	if e, ok := errors.AsType[*expr.Error](err); ok {
		return e
	}
	return &expr.Error{Message: err.Error()}
}

// uses looks at the names that an expression uses. It gives nil when it can be
// evaluated, else what stands for its value.
func (x *expander) uses(p *expr.Program, s expr.Segment, at path, text string) any {
	var answer any
	for _, r := range p.Refs() {
		u, err := x.scope.use(r.Path)
		switch {
		case err != nil:
			x.addText(at, text, &expr.Error{Offset: s.Offset + r.Offset, Message: err.message}, err.hint)
			answer = value.Invalid{}
		case u.bad:
			answer = value.Invalid{}
		case len(u.refs) == 0 || x.scope.answers != nil:
		case x.static == "repositories" && len(r.Path) > 1 && r.Path[0] == "vars" && x.vars.Input(r.Path[1]).Key.Name == "":
			// Only a run needs the value of a login: see Options.Unknown.
			answer = cmp.Or(answer, any(value.Deferred{}))
		case x.static != "":
			x.addText(at, text, &expr.Error{Offset: s.Offset + r.Offset, Message: x.static + " must be known when the file is read, but " + u.what + " is known only when a step starts"}, u.hint)
			answer = value.Invalid{}
		default:
			if !x.scope.note(&x.sum, u.what, u.refs, !r.Tested) {
				if x.sum.inputs-len(u.refs) <= maxInputs {
					x.addText(at, text, &expr.Error{Offset: s.Offset + r.Offset, Message: "the steps ask for too many values of others"}, "name a step of the group")
				}
				answer = value.Invalid{}
			}
			if answer == nil {
				answer = value.Deferred{}
			}
		}
	}
	if x.skip && answer == nil {
		return value.Deferred{}
	}
	return answer
}

// addText reports a fault at an offset of the text at a path.
func (x *expander) addText(at path, text string, e *expr.Error, hint string) {
	if x.Full() {
		x.Skip(1)
		return
	}
	x.Add(x.Source, x.Source.TextPos(at, text, e.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
}
