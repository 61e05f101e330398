package load

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
)

// Bounds of what a plan may ask for.
const (
	maxInstallRetries = 1000
	maxRetryDelay     = 24 * 60 * 60
	maxStable         = 1000
	maxReleaseName    = 53 // helm.sh/helm/v3/pkg/chartutil/validate_name.go
)

const labelHint = "use small letters, digits and -, at most 63, starting and ending with a letter or digit"

// validator looks for what the types alone cannot say. A field whose fault is
// reported already is empty, so empty fields are passed over.
type validator struct {
	*pass
	// at is where the part of the file stands that is looked at, and fields are its
	// values, with expressions resolved.
	at     path
	fields any
}

// newValidator returns what looks at a file as a whole.
func newValidator(p *pass) validator { return validator{p, nil, p.tree} }

// value returns what the file has at a path; nil when there is nothing.
func (v validator) value(at path) any {
	found := v.fields
	for _, e := range at[len(v.at):] {
		switch e := e.(type) {
		case string:
			m, _ := found.(map[string]any)
			found = m[e]
		case int:
			l, _ := found.([]any)
			if e >= len(l) {
				return nil
			}
			found = l[e]
		}
	}
	return found
}

// has reports whether the file gives a value at a path.
func (v validator) has(at path) bool { return v.value(at) != nil }

// isNumber reports whether the file gives a number: a zero in the plan may also
// mean that there is none, or that its fault is reported already.
func (v validator) isNumber(at path) bool {
	switch v.value(at).(type) {
	case int64, float64:
		return true
	}
	return false
}

// inRange reports a number that the file gives and that is not from low to high.
func inRange[N int | float64](v validator, at path, n *N, low, high int, hint string) {
	if v.isNumber(at) && n != nil && (*n < N(low) || *n > N(high)) {
		v.Report(fault{At: at, Hint: hint}, "%s is %v, but must be from %d to %d", at.Last(), *n, low, high)
	}
}

// isEmptyText reports whether the file gives an empty text, rather than none or one
// whose fault is reported already.
func (v validator) isEmptyText(at path) bool { return v.value(at) == "" }

// checkText reports an empty text.
func (v validator) checkText(at path, what, hint string) {
	if v.isEmptyText(at) {
		v.Report(fault{At: at, Hint: hint}, "%s is empty", what)
	}
}

// isBare reports whether all values are missing or empty lists.
func isBare(values ...any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		list, ok := v.([]any)
		return v != nil && (!ok || len(list) > 0)
	})
}

// head looks at all but the steps.
func (v validator) head() {
	p := v.plan
	v.checkConst(p.APIVersion, plan.APIVersion, path{"apiVersion"})
	v.checkConst(p.Kind, plan.PlanKind, path{"kind"})
	v.checkLabel(p.Metadata.Name, path{"metadata", "name"})
	v.checkRetry(p.Defaults.Retry, path{"defaults", "retry"})
	v.checkLabel(p.State.Namespace, path{"state", "namespace"})
	v.checkClusters()
	v.checkRepositories()
	v.checkReady()
	if steps, ok := v.tree["steps"].([]any); ok && len(steps) == 0 {
		v.ReportField(fault{Code: document.CodeMissingField, At: path{"steps"}, Hint: "add a step"}, "the plan has no steps")
	}
}

func (v validator) checkConst(got, want string, at path) {
	if got != "" && got != want {
		v.Report(fault{Code: document.CodeUnknownValue, At: at, Hint: "write " + want}, "%s is %q, but only %s is understood", at, document.Cut(got, 60), want)
	}
}

func (v validator) checkLabel(name string, at path) {
	if name != "" && !names.IsLabel(name) {
		hint := labelHint
		if better := strings.Trim(strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace(strings.ToLower(name)), "-"); names.IsLabel(better) {
			hint = fmt.Sprintf("did you mean %q?", better)
		}
		v.Report(fault{At: at, Hint: hint}, "%q cannot be a %s", document.Cut(name, 80), strings.ReplaceAll(labelKind(at), "_", " "))
	}
	if name == "" && v.isEmptyText(at) {
		v.Report(fault{Code: document.CodeMissingField, At: at}, "the %s is empty", labelKind(at))
	}
}

// labelKind says what a name names: a plan, a step or a namespace.
func labelKind(at path) string {
	switch last := at[len(at)-1].(string); {
	case last == "namespace":
		return last
	case at[0] == "metadata":
		return "plan's name"
	}
	return "step's name"
}

// kindNames are the fields of a step of which there is one.
var kindNames = []string{string(plan.KindHelm), string(plan.KindApply), string(plan.KindWait), string(plan.KindWebhook), string(plan.KindDelete), string(plan.KindInclude)}

func (v stepValidator) checkKinds(s plan.Step, at path) {
	step, _ := v.fields.(map[string]any)
	var given []string
	for _, k := range kindNames {
		if _, has := step[k]; has {
			given = append(given, k)
		}
	}
	switch len(given) {
	case 0:
		for k := range step {
			if v.near.Find(k, kindNames) != "" {
				return // a mistyped kind is reported as such
			}
		}
		v.Report(fault{Code: document.CodeMissingField, At: at, Hint: "give it one of helm, apply, wait, webhook or include"}, "the step%s says nothing to do", named(s.Name))
	case 1:
	default:
		// The one that stands last in the file is the one too many.
		last := slices.MaxFunc(given, func(a, b string) int {
			p, q := v.Source.KeyPos(at.Key(a)), v.Source.KeyPos(at.Key(b))
			return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
		})
		v.ReportField(fault{At: at.Key(last), Hint: "make a step of each"}, "the step%s is of more than one kind: %s", named(s.Name), strings.Join(given, " and "))
	}
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return " " + strconv.Quote(name)
}

// needs reports needs that no step has, those of a step that comes after all
// others, and cycles.
func (v validator) needs() {
	names := v.stepNames()
	allNamed := !slices.ContainsFunc(v.decls, func(e *stepDecl) bool { return e.name == "" && v.has(e.at.Key("name")) })
	for _, e := range v.decls {
		seen := make(map[string]bool, len(e.needs))
		for j, n := range e.needs {
			at := e.at.Key("needs").Index(j)
			if _, long := v.value(at).(map[string]any); long {
				at = at.Key("step")
			}
			target := v.target(n.Step)
			switch {
			case n.Step == "" && !v.isEmptyText(at):
			case n.Step != "" && n.Step == e.name && v.byName[e.name] != e: // the name is that of two
			case n.Step != "" && n.Step == e.name:
				v.Report(fault{Code: document.CodeCycle, At: at, Hint: "remove it"}, "the step %q needs itself", n.Step)
			case seen[n.Step]:
				v.Report(fault{Code: document.CodeDuplicate, At: at, Hint: "remove it"}, "the step %q is needed twice", n.Step)
			case target == nil && allNamed:
				v.Report(fault{Code: document.CodeUnknownName, At: at, Hint: v.needHint(n.Step, names)}, "there is no step %q", n.Step)
			case target != nil && target.last && !e.last:
				v.Report(fault{At: at, Hint: "the steps of finally run after all others"}, "the step %q needs %q, which is one of finally", e.name, n.Step)
			}
			seen[n.Step] = true
		}
	}
	for _, cycle := range v.fileGraph().Cycles() {
		if len(cycle) > 1 {
			e := v.byName[cycle[0]]
			j := slices.IndexFunc(v.localNeeds(e), func(n plan.Need) bool { return n.Step == cycle[1] })
			v.Report(fault{Code: document.CodeCycle, At: e.at.Key("needs").Index(j), Hint: "each step needs the next one: remove one of these needs"}, "cycle: %s", strings.Join(append(cycle, cycle[0]), " -> "))
		}
	}
}

func (v validator) needHint(n string, names []string) string {
	if hint := v.near.Hint(n, names); hint != "" {
		return hint
	}
	if len(names) <= 10 {
		return "the steps are " + document.Cut(strings.Join(names, ", "), 120)
	}
	return ""
}

// checkPaths reports empty paths in a list.
func (v stepValidator) checkPaths(list []string, at path) {
	for i := range list {
		v.checkText(at.Index(i), "the path", "")
	}
}
