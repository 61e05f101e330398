package vars

import (
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/internal/nearest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// varError is what is wrong with a variable's value.
type varError struct{ message, hint string }

// judge returns the value that g makes for the variable, or why it cannot be one;
// then with the value as it is.
func judge(d *declaration, g Given, near *nearest.Finder) (any, *varError) {
	show := g.quotable() && !d.sensitive
	where := ""
	if g.Source == plan.SourceEnv {
		where = " in the environment variable " + d.env
	}
	v := g.Value
	if g.isText {
		var err error
		if v, err = parseValue(g.text, d.typ); err != nil {
			return nil, &varError{message: d.refusal(err, show, where)}
		}
	}
	switch {
	case !hasType(v, d.typ):
		got, hint := document.DescribeType(v), ""
		if d.typ == plan.VarString && value.IsScalar(v) {
			hint = "quote it to mean the text"
		}
		if d.sensitive {
			got = "something else"
		} else if show {
			got = document.Describe(v)
		}
		return v, &varError{"expected " + typeNouns[d.typ] + d.like + ", got " + got, hint}
	case d.required && isEmpty(v):
		return v, &varError{fmt.Sprintf("the required variable %q is empty%s", d.name, where), "it needs a value that says something"}
	case len(d.allowed) > 0 && !among(d.allowed, v):
		got := "the value" + where
		if show {
			got = plan.Literal(v)
		}
		return v, &varError{got + " is none of the allowed values", allowedHint(d, v, near)}
	}
	return v, d.unmet(v, where)
}

// refusal says why a text could not be read as a value.
func (d *declaration) refusal(err error, show bool, where string) string {
	wrong, ok := errors.AsType[*typeError](err)
	switch {
	case ok && show:
		return "expected " + typeNouns[d.typ] + d.like + ", got " + wrong.got
	case ok:
		return "expected " + typeNouns[d.typ] + where + ", got other text"
	case show:
		return err.Error()
	}
	return "the value" + where + " is not valid YAML"
}

// allowedHint says what the variable takes.
func allowedHint(d *declaration, v any, near *nearest.Finder) string {
	if d.sensitive {
		return ""
	}
	if s, ok := v.(string); ok {
		var texts []string
		for _, a := range d.allowed {
			if t, ok := a.(string); ok {
				texts = append(texts, t)
			}
		}
		if hint := near.Hint(s, texts); hint != "" {
			return hint
		}
	}
	return "allowed are " + literals(d.allowed)
}
