package load

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// evaluation puts the values for one cluster in the place of expressions.
type evaluation struct {
	*Fleet
	document.Reporter
	cluster fleet.Cluster
	values  map[string]any
	cost    *expr.Budget
}

// value returns a copy of v with all expressions resolved.
func (e *evaluation) value(v any, at path) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = e.value(x, at.Key(k))
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = e.value(x, at.Index(i))
		}
		return l
	case string:
		if expr.Has(v) {
			return e.text(v, at)
		}
	}
	return v
}

// text resolves the expressions of one text. A text that is nothing but one expression takes
// the value with its type.
func (e *evaluation) text(text string, at path) any {
	segments, err := expr.Split(text)
	if err != nil { // it was checked when the file was read
		return e.refuse(asExprError(err), "", text, at)
	}
	var b strings.Builder
	for _, s := range segments {
		if !s.IsExpr {
			b.WriteString(s.Text)
			continue
		}
		p, err := e.env.Compile(s.Text)
		if err != nil { // as above
			return e.refuse(asExprError(err), "", text, at)
		}
		v, err := p.Eval(e.values, e.cost)
		if err != nil {
			x := asExprError(err)
			hint := explainEval(p, x, e.cluster, `%[1]s ? %[2]s : "…"`)
			x.Offset += s.Offset
			return e.refuse(x, hint, text, at)
		}
		if len(segments) == 1 {
			return v
		}
		part, ok := scalar(v)
		if !ok {
			return e.refuse(&expr.Error{Offset: s.Offset, Message: noText(v) + " cannot be put inside of a text"}, wholeHint, text, at)
		}
		b.WriteString(part)
	}
	return b.String()
}

const wholeHint = "let the expression be the whole value"

// noText says what a value is that is no scalar.
func noText(v any) string {
	if v == nil {
		return "null"
	}
	return document.DescribeType(v)
}

func (e *evaluation) refuse(x *expr.Error, hint, text string, at path) any {
	e.Add(e.source, e.source.TextPos(at, text, x.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", x.Message)
	return nil
}

// scalar writes a value into a text, if it can be.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
