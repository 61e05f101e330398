package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// stepValidator looks at one step.
type stepValidator struct{ validator }

func newStepValidator(p *pass, it *instance) stepValidator {
	return stepValidator{validator{p, it.decl.at, it.tree}}
}

// step looks at a step as the file has it.
func (v stepValidator) step(s plan.Step) {
	at := v.at
	v.checkLabel(s.Name, at.Key("name"))
	v.checkRetry(s.Retry, at.Key("retry"))
	v.checkWhen(v.value(at.Key("when")), at.Key("when"))
	v.checkTags(s.Tags, at.Key("tags"))
	v.checkClusterName(s.Cluster, at.Key("cluster"))
	v.checkConcurrencyGroup(s, at.Key("concurrency_group"))
	v.checkKinds(s, at)
	v.checkOutputs(s, at.Key("outputs"))
	if s.Helm != nil {
		v.checkHelm(s, at.Key("helm"))
	}
	if s.Apply != nil {
		v.checkApply(*s.Apply, at.Key("apply"))
	}
	if s.Wait != nil {
		v.checkWait(*s.Wait, at.Key("wait"))
	}
	if s.Webhook != nil {
		v.checkWebhook(s, at.Key("webhook"))
	}
	if s.Delete != nil {
		v.checkDelete(*s.Delete, at.Key("delete"))
	}
}

func (v stepValidator) checkWhen(when any, at path) {
	switch when.(type) {
	case nil, bool, value.Invalid, value.Deferred:
		return
	}
	hint := ""
	if s, ok := when.(string); ok && (s == "true" || s == "false") {
		hint = "write it without quotes"
	} else if ok && !strings.Contains(s, "${{") && strings.ContainsAny(s, ".=") {
		hint = "write an expression as ${{ … }}"
	}
	v.Report(fault{Code: document.CodeWrongType, At: at, Hint: hint}, "when is true or false, got %s", v.describeAt(when, at))
}

func (v stepValidator) checkTags(tags []string, at path) {
	for i, t := range tags {
		switch {
		case t == "":
			v.checkText(at.Index(i), "the tag", "remove it")
		case !names.IsTag(t, 63):
			v.Report(fault{At: at.Index(i), Hint: "use letters, digits, -, _ and ., at most 63"}, "%q cannot be a tag", document.Cut(t, 80))
		case slices.Index(tags, t) < i:
			v.Report(fault{Code: document.CodeDuplicate, At: at.Index(i), Hint: "remove it"}, "the tag %q is given twice", t)
		}
	}
}

// maxConcurrencyGroup is how many characters the name of a concurrency group may have.
const maxConcurrencyGroup = 100

// checkConcurrencyGroup refuses a group of an include: its steps run side by side, so
// that it is not clear what would be kept apart.
func (v stepValidator) checkConcurrencyGroup(s plan.Step, at path) {
	group := s.ConcurrencyGroup
	switch {
	case s.Include != nil && v.has(at):
		v.ReportField(fault{At: at, Hint: "give it to the steps of the included plan: the name of a group is that of the whole plan"}, "an include is in no concurrency group")
	case group == "":
		v.checkText(at, "concurrency_group", "name the group, or remove the field")
	case !names.IsGroup(group, maxConcurrencyGroup):
		v.Report(fault{At: at, Hint: fmt.Sprintf("use letters, digits, -, _, ., : and /, at most %d", maxConcurrencyGroup)}, "%q cannot be the name of a concurrency group", document.Cut(group, 80))
	}
}

// Bounds of retries.
const (
	maxMultiplier = 100
	maxJitter     = 1
)

func (v validator) checkRetry(r *plan.Retry, at path) {
	if r == nil {
		return
	}
	inRange(v, at.Key("install_retries"), &r.InstallRetries, 1, maxInstallRetries, "it counts the attempts in all: 1 is no retry")
	inRange(v, at.Key("retry_delay_seconds"), r.RetryDelaySeconds, 0, maxRetryDelay, "it is the longest wait between two attempts")
	inRange(v, at.Key("multiplier"), &r.Multiplier, 1, maxMultiplier, "2 makes each delay twice as long as the one before")
	if most := at.Key("max_delay_seconds"); v.isNumber(most) && (r.MaxDelaySeconds <= 0 || r.MaxDelaySeconds > maxRetryDelay) {
		v.Report(fault{At: most, Hint: "it bounds the delays that multiplier makes"}, "max_delay_seconds is %v, but must be more than 0 and at most %d", r.MaxDelaySeconds, maxRetryDelay)
	}
	inRange(v, at.Key("jitter"), r.Jitter, 0, maxJitter, "0.2 makes each delay up to a fifth shorter")
	on := at.Key("on")
	if list, ok := v.value(on).([]any); ok && len(list) == 0 {
		v.ReportField(fault{At: on, Hint: "name a kind of failure, or leave on out for any"}, "on is empty")
	}
	for i, kind := range r.On {
		if kind != "" && slices.Index(r.On, kind) < i {
			v.Report(fault{Code: document.CodeDuplicate, At: on.Index(i), Hint: "remove it"}, "%q is given twice", kind)
		}
	}
}

func (v stepValidator) checkOutputs(s plan.Step, at path) {
	if s.Include != nil && v.has(at) {
		v.ReportField(fault{At: at, Hint: "read those of its steps: steps.INCLUDE.STEP.outputs.NAME"}, "an include has no outputs of its own")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		o, at := s.Outputs[name], at.Key(name)
		if !names.IsIdentifier(name) {
			v.ReportField(fault{At: at, Hint: "use letters, digits and _ only, and no digit first"}, "%q cannot be the name of an output", name)
		}
		kind, object, ok := strings.Cut(o.Resource, "/")
		if o.Resource != "" && (!ok || kind == "" || object == "" || strings.ContainsAny(o.Resource, " ,") || strings.Contains(object, "/")) {
			v.Report(fault{At: at.Key("resource"), Hint: "write TYPE/NAME, such as service/web"}, "%q is not a resource", document.Cut(o.Resource, 80))
		}
		v.checkLabel(o.Namespace, at.Key("namespace"))
		jsonpath, cel := v.has(at.Key("jsonpath")), v.has(at.Key("cel"))
		switch {
		case jsonpath && cel:
			v.ReportField(fault{At: at.Key("cel"), Hint: "keep one of them"}, "the output %q has both jsonpath and cel", name)
		case !jsonpath && !cel && v.has(at):
			v.ReportField(fault{Code: document.CodeMissingField, At: at, Hint: "give jsonpath or cel"}, "it is not said what the output %q is", name)
		case jsonpath:
			v.checkJSONPath(o.JSONPath, at.Key("jsonpath"))
		case cel:
			v.checkCEL(o.CEL, at.Key("cel"), "object")
		}
	}
}

// checkJSONPath reads a path as far as its braces.
func (v stepValidator) checkJSONPath(text string, at path) {
	const hint = "write it in braces, such as {.status.phase}"
	if text == "" {
		v.checkText(at, "jsonpath", hint)
		return
	}
	switch paths, err := plan.JSONPaths(text); {
	case err != nil:
		v.Report(fault{At: at}, "jsonpath cannot be read: %v", err)
	case len(paths) == 0:
		v.Report(fault{At: at, Hint: hint}, "jsonpath reads nothing of the object: %q has no path in braces", document.Cut(text, 60))
	}
}

// checkCEL reads an expression over the named values, which has the functions of
// the API server too: what functions there are is not known here.
func (v stepValidator) checkCEL(text string, at path, names ...string) {
	if text == "" {
		v.checkText(at, at.Last(), "write CEL over "+strings.Join(names, " and "))
		return
	}
	if err := expr.Parse(text, names...); err != nil {
		e := asExprError(err)
		hint := ""
		if e.Missing != "" {
			hint = "it is over " + strings.Join(names, " and ")
		}
		v.Add(v.Source, v.Source.PlainPos(at, text, e.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
	}
}

// checkGroup looks at what the steps of a for_each have in common: each helm step
// needs a release of its own.
func (v validator) checkGroup(e *stepDecl) {
	if !e.grouped || e.isInclude {
		return
	}
	first := map[[3]string]string{}
	for _, it := range e.instances {
		h := it.step.Helm
		at := e.at.Key("helm")
		if h == nil || it.skip {
			continue
		}
		if _, given := it.tree["helm"].(map[string]any)["release"]; !given {
			v.ReportField(fault{At: at, Hint: "give release, with ${{ each.key }} in it"}, "a helm step with for_each must say its release")
			return
		}
		key := [3]string{h.Release, h.Namespace, it.step.Cluster}
		was, dup := first[key]
		switch {
		case h.Release == "", value.IsUnsaid(it.tree["helm"].(map[string]any)["namespace"]):
		case dup:
			v.Report(fault{Code: document.CodeDuplicate, At: at.Key("release"), Hint: "put ${{ each.key }} into it"}, "the release %q is that of two items: %s and %s", h.Release, was, it.key)
			return
		default:
			first[key] = it.key
		}
	}
}
