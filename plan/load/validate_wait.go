package load

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

func (v stepValidator) checkWait(w plan.Wait, at path) {
	v.checkLabel(w.Namespace, at.Key("namespace"))
	if w.Resource != "" {
		kind, name, hasName := strings.Cut(w.Resource, "/")
		switch {
		case kind == "", hasName && name == "", strings.Contains(name, "/"), strings.ContainsAny(w.Resource, " ,"):
			v.Report(fault{At: at.Key("resource"), Hint: "write TYPE/NAME, such as deployment/web or certificate.cert-manager.io/tls"}, "%q is not a resource", document.Cut(w.Resource, 80))
		case hasName && w.Selector != "":
			v.Report(fault{At: at.Key("selector"), Hint: "remove one of them"}, "a resource with a name, %q, takes no selector", document.Cut(w.Resource, 80))
		case !hasName && w.Selector == "" && !v.has(at.Key("selector")):
			v.Report(fault{At: at.Key("resource"), Hint: fmt.Sprintf("write %s/NAME, or add a selector", document.Cut(w.Resource, 60))}, "the resource %q has no name", document.Cut(w.Resource, 80))
		}
	}
	if w.For == "" {
		v.checkText(at.Key("for"), "for", conditionHint)
		return
	}
	if _, err := w.Condition(); err != nil {
		hint := conditionHint
		if len(w.For) > 0 && !strings.Contains(w.For, "=") && w.For[0] >= 'A' && w.For[0] <= 'Z' {
			hint = "did you mean condition=" + document.Cut(w.For, 60) + "?"
		} else if near := v.near.Find(strings.SplitN(w.For, "=", 2)[0], []string{"condition", "jsonpath", "create", "delete"}); near != "" && !strings.HasPrefix(w.For, near) {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		v.Report(fault{At: at.Key("for"), Hint: hint}, "for cannot be read: %v", err)
	}
}

const conditionHint = "write condition=NAME, condition=NAME=VALUE, jsonpath={.PATH}=VALUE, create or delete"
