package load

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// kindOfGroup is KIND.GROUP, or the KIND alone of one without a group.
var kindOfGroup = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`)

// checkReady looks at the expressions that say when objects are ready.
func (v validator) checkReady() {
	for _, kind := range slices.Sorted(maps.Keys(v.plan.Ready)) {
		rule, at := v.plan.Ready[kind], path{"ready", kind}
		if !kindOfGroup.MatchString(kind) {
			v.ReportField(fault{At: at, Hint: "write KIND.GROUP, such as Certificate.cert-manager.io, or Pod for a kind without a group"}, "%q is not a kind", document.Cut(kind, 80))
		}
		if _, long := v.value(at).(map[string]any); !long {
			v.checkObjectCEL(rule.Ready, at, expr.Bool)
			continue
		}
		v.checkObjectCEL(rule.Ready, at.Key("ready"), expr.Bool)
		v.checkObjectCEL(rule.Failed, at.Key("failed"), expr.Bool)
		v.checkObjectCEL(rule.Message, at.Key("message"), expr.String)
	}
}

// checkObjectCEL reads an expression over object, and looks at its type.
func (v validator) checkObjectCEL(text string, at path, want expr.Type) {
	if strings.TrimSpace(text) == "" {
		v.checkText(at, "the expression", `write CEL over object, such as object.status.phase == "Running"`)
		return
	}
	if err := expr.Check(text, want, "object"); err != nil {
		e := asExprError(err)
		hint := ""
		if e.Missing != "" && len(e.Path) == 0 && strings.HasPrefix(e.Message, "the name") {
			hint = "it is CEL over object, such as object.status.phase"
		}
		v.Add(v.Source, v.Source.PlainPos(at, text, e.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
	}
}
