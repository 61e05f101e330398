package load

import (
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/expr"
)

// typeOfVar is the type of a variable whose value is not known yet.
func typeOfVar(d *declaration) expr.Type {
	switch d.typ {
	case plan.VarString:
		return expr.String
	case plan.VarInteger:
		return expr.Int
	case plan.VarBoolean:
		return expr.Bool
	case plan.VarList:
		return expr.List
	case plan.VarMap:
		return expr.Map
	case plan.VarNumber, plan.VarAny:
	}
	return expr.Any
}

// varInput is what a deferred variable asks for.
func (c *file) varInput(name string) plan.Input {
	d := c.vars[name]
	if d.ref == nil { // it has no value, and nothing is run: see Options.Unknown
		return plan.Input{From: plan.FromSecret, Sensitive: true}
	}
	a := plan.Input{From: plan.FromSecret, Key: *d.ref, Sensitive: d.sensitive}
	if d.from.source == plan.SourceConfigMap {
		a.From = plan.FromConfigMap
	}
	a.Key.Cluster = c.clusterName(a.Key.Cluster)
	_, a.Optional = c.defaultOf(d)
	return a
}

// answer gives the value of a deferred variable: what its key has, else its default.
func (c *pass) answer(name string, answer any, ok bool) any {
	d := c.vars[name]
	text, isText := answer.(string)
	if !ok || !isText {
		if def, has := c.defaultOf(d); has {
			return def
		}
		c.ReportField(fault{At: d.at}, "the variable %q has no value: the cluster does not have %s", name, c.varInput(name))
		return invalid{}
	}
	if d.sensitive {
		c.plan.Sensitive.Add(text)
	}
	v, err := c.judge(d, given{source: d.from.source, text: text, isText: true})
	if err != nil {
		c.ReportField(fault{At: d.at, Hint: err.hint}, "the value of the variable %q: %s", name, err.message)
		return invalid{}
	}
	return v
}

// defaultOf gives the default of a variable.
func (c *file) defaultOf(d *declaration) (any, bool) {
	vars, _ := c.tree["vars"].(map[string]any)
	raw, _ := vars[d.name].(map[string]any)
	v, ok := raw["default"]
	return v, ok
}
