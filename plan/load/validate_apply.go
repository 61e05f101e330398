package load

import (
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

func (v stepValidator) checkApply(a plan.Apply, at path) {
	v.checkLabel(a.Namespace, at.Key("namespace"))
	v.checkPaths(a.Files, at.Key("files"))
	if isBare(v.value(at.Key("files")), v.value(at.Key("objects"))) {
		v.ReportField(fault{At: at, Hint: "give files or objects"}, "there is nothing to apply")
	}
	if a.Wait == plan.WaitHooks {
		v.Report(fault{At: at.Key("wait"), Hint: "write none or ready"}, "hooks are for helm steps only")
	}
	for i := range a.Objects {
		o, _ := v.value(at.Key("objects").Index(i)).(map[string]any)
		v.checkObject(o, at.Key("objects").Index(i))
	}
}

// checkObject wants what every Kubernetes object has.
func (v stepValidator) checkObject(o map[string]any, at path) {
	if o == nil {
		return
	}
	for _, k := range []string{"apiVersion", "kind"} {
		switch o[k].(type) {
		case string, value.Invalid, value.Deferred:
		case nil:
			v.Report(fault{At: at}, "the object has no %s", k)
		default:
			v.Report(fault{At: at.Key(k)}, "expected text, got %s", document.Describe(o[k]))
		}
	}
	kind, _ := o["kind"].(string)
	if _, isList := o["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		return
	}
	meta, _ := o["metadata"].(map[string]any)
	switch meta["name"].(type) {
	case string, value.Invalid, value.Deferred:
	case nil:
		hint := ""
		if meta["generateName"] != nil {
			hint = "server-side apply needs a name; generateName makes a new one each time"
		}
		if !value.IsUnsaid(o["metadata"]) {
			v.Report(fault{At: at, Hint: hint}, "the object has no metadata.name")
		}
	default:
		v.Report(fault{At: at.Key("metadata").Key("name"), Hint: "quote it"}, "expected text, got %s", document.Describe(meta["name"]))
	}
}
