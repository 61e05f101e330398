package vars

import (
	"errors"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// condition is what a variable's value meets.
type condition struct {
	program *expr.Program
	text    string
	message string
}

// declareConditions reads what the value must meet. What is of the wrong type, or has
// no condition, is left to decode.
func (r *reader) declareConditions(d *declaration, raw map[string]any) {
	list, _ := raw["validation"].([]any)
	for i, item := range list {
		fields, _ := item.(map[string]any)
		at := d.at.Key("validation").Index(i)
		text, _ := fields["condition"].(string)
		message, _ := fields["message"].(string)
		_, said := fields["message"].(string)
		if message = strings.TrimSpace(message); said && message == "" {
			r.Report(document.Fault{At: at.Key("message"), Hint: "say what the value should be"}, "the message is empty")
		}
		if text != "" && message != "" {
			if c, ok := r.compile(d, text, at.Key("condition")); ok {
				c.message = message
				d.conditions = append(d.conditions, c)
				continue
			}
		}
		d.broken = true
	}
}

// compile reads a condition, and reports what is wrong with it.
func (r *reader) compile(d *declaration, text string, at document.Path) (condition, bool) {
	p, err := expr.NewEnv(map[string]expr.Type{"value": typesOf[d.typ]}, nil).Compile(text)
	if err != nil {
		fault := document.Fault{Code: document.CodeExpression, At: at}
		e, ok := errors.AsType[*expr.Error](err)
		if ok && e.Missing != "" {
			fault.Hint = "a condition sees the value alone, by the name value"
		}
		if !ok {
			r.Report(fault, "%v", err)
			return condition{}, false
		}
		r.Add(r.Source, r.Source.PlainPos(at, text, e.Offset), fault, "%s", e.Message)
		return condition{}, false
	}
	if t := p.Type(); !t.Is(expr.Bool) {
		r.Report(document.Fault{Code: document.CodeExpression, At: at, Hint: "compare it with something"}, "the condition is %s, and not true or false", t.About())
		return condition{}, false
	}
	return condition{program: p, text: text}, true
}

// typesOf are the types of variables as expressions have them. A number may be a whole one.
var typesOf = map[plan.VarType]expr.Type{
	plan.VarString: expr.String, plan.VarNumber: expr.Any, plan.VarInteger: expr.Int, plan.VarBoolean: expr.Bool,
	plan.VarList: expr.List, plan.VarMap: expr.Map, plan.VarAny: expr.Any,
}

// unmet says which condition a value does not meet; nil when it meets all. One that
// cannot be evaluated is not met: a list is asked for what only texts have, say.
func (d *declaration) unmet(v any, where string) *varError {
	for _, c := range d.conditions {
		met, err := c.program.Eval(map[string]any{"value": v}, expr.NewBudget())
		if met == true && err == nil {
			continue
		}
		message := "the value" + where + " is not as it should be: " + c.message
		if err != nil {
			message += " (" + err.Error() + ")" // it has no value in it
		}
		return &varError{message, "it must meet: " + strings.Join(strings.Fields(c.text), " ")}
	}
	return nil
}
