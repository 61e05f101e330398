package load

import (
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// compileSelects checks the conditions of inventory entries and waves.
func (p *pass) compileSelects() {
	p.takes, p.selects = make([]*expr.Program, len(p.Inventory)), make([]*expr.Program, len(p.Waves))
	for i, entry := range p.Inventory {
		p.takes[i] = p.compileSelect(entry.Select, path{"inventory", i, "select"})
	}
	for i, w := range p.Waves {
		p.selects[i] = p.compileSelect(w.Select, path{"waves", i, "select"})
	}
}

// compileSelect checks a text that is an expression of the type boolean. It returns nil when
// there is none, and when it has a fault.
func (p *pass) compileSelect(text string, at path) *expr.Program {
	switch {
	case strings.Contains(text, "${{"):
		p.Report(fault{Code: document.CodeExpression, At: at, Hint: "write it without ${{ and }}"}, "select is an expression itself")
		return nil
	case text == "":
		p.checkText(at, "remove it to take all clusters")
		return nil
	case strings.TrimSpace(text) == "":
		p.Report(fault{At: at, Hint: "remove it to take all clusters"}, "select is empty")
		return nil
	}
	program, err := p.env.Compile(text)
	if err != nil {
		e := asExprError(err)
		hint := p.explain(e)
		p.addPlain(at, text, e, hint)
		return nil
	}
	if !program.Type().Is(expr.Bool) {
		hint := ""
		if program.IsPath() {
			hint = "compare it with a value: " + oneLine(text) + ` == "…"`
		}
		p.addPlain(at, text, &expr.Error{Message: "the expression gives " + program.Type().About() + ", not true or false"}, hint)
		return nil
	}
	return program
}

func (p *pass) addPlain(at path, text string, e *expr.Error, hint string) {
	p.Add(p.Source, p.Source.PlainPos(at, text, e.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
}

// compileVars checks the expressions of a value below vars, and reports whether it has none
// and is as it stands.
func (p *pass) compileVars(v any, at path) (literal bool) {
	literal = true
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if expr.Has(k) {
				p.ReportField(fault{Code: document.CodeExpression, At: at.Key(k), Hint: "use expressions in values only"}, "the name of a field cannot have an expression")
			}
			literal = p.compileVars(v[k], at.Key(k)) && literal
		}
	case []any:
		for i, x := range v {
			literal = p.compileVars(x, at.Index(i)) && literal
		}
	case string:
		if expr.Has(v) {
			literal = false
			p.compileText(v, at)
		}
	}
	return literal
}

const literalHint = "to mean the text ${{ itself, write $${{"

// compileText checks the expressions of a text, and returns the type of its value. It is not
// ok when one has a fault.
func (p *pass) compileText(text string, at path) (t expr.Type, ok bool) {
	segments, err := expr.Split(text)
	if err != nil {
		p.addText(at, text, asExprError(err), literalHint)
		return expr.Any, false
	}
	t, ok = expr.String, true
	for _, s := range segments {
		if !s.IsExpr {
			continue
		}
		program, err := p.env.Compile(s.Text)
		switch {
		case err != nil:
			e := asExprError(err)
			hint := p.explain(e)
			e.Offset += s.Offset
			p.addText(at, text, e, hint)
			ok = false
		case len(segments) == 1:
			t = program.Type()
		case !program.Type().IsScalar():
			p.addText(at, text, &expr.Error{Offset: s.Offset, Message: program.Type().About() + " cannot be put inside of a text"}, wholeHint)
			ok = false
		}
	}
	if !ok {
		p.bad[at[1].(string)] = true // below vars
	}
	return t, ok
}

func (p *pass) addText(at path, text string, e *expr.Error, hint string) {
	p.Add(p.Source, p.Source.TextPos(at, text, e.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
}

// clusterFields are what expressions know of a cluster.
var clusterFields = []string{"name", "namespace", "labels", "annotations"}

// explain says of an expression that does not compile what may have been meant.
func (p *pass) explain(e *expr.Error) (hint string) {
	within := strings.Join(e.Path, ".")
	switch {
	case strings.Contains(e.Message, "does not support field selection"):
		return `a label whose name has dots or a slash is cluster.labels["kplan.dev/ring"]`
	case strings.Contains(e.Message, "(string, int)"), strings.Contains(e.Message, "(int, string)"):
		return `labels are text: compare them with text, as in cluster.labels.ring == "0", or convert them by int(…)`
	case e.Missing == "":
		return ""
	case within == "cluster":
		if near := p.near.Find(e.Missing, clusterFields); near != "" {
			return "did you mean cluster." + near + "?"
		}
		return "a cluster has name, namespace, labels and annotations: did you mean cluster.labels." + e.Missing + "?"
	case within != "", strings.Contains(e.Message, "function"):
		return ""
	case slices.Contains(clusterFields, e.Missing):
		return "did you mean cluster." + e.Missing + "?"
	case e.Missing == "vars", e.Missing == "plan", e.Missing == "steps":
		return "expressions of a fleet see cluster only"
	case p.near.Find(e.Missing, []string{"cluster"}) != "":
		return "did you mean cluster?"
	}
	return `expressions see cluster only; write texts in quotes: "` + e.Missing + `"`
}

// strayExpressions reports expressions where none is understood.
func (p *pass) strayExpressions(v any, at path) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if len(at) > 0 || k != "vars" {
				p.strayExpressions(v[k], at.Key(k))
			}
		}
	case []any:
		for i, x := range v {
			p.strayExpressions(x, at.Index(i))
		}
	case string:
		if expr.Has(v) && at.Last() != "select" {
			p.Add(p.Source, p.Source.ValuePos(at), fault{Code: document.CodeExpression, At: at, Hint: "values that differ from cluster to cluster go into vars"}, "only vars can have expressions")
		}
	}
}
