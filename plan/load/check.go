package load

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// Bounds of what a plan may ask for.
const (
	maxInstallRetries = 1000
	maxRetryDelay     = 24 * 60 * 60
	maxStable         = 1000
	maxReleaseName    = 53 // helm.sh/helm/v3/pkg/chartutil/validate_name.go
)

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

const labelHint = "use small letters, digits and -, at most 63, starting and ending with a letter or digit"

// value gives what the file has at a path; nil when there is nothing.
func (c *checker) value(at document.Path) any {
	var v any = c.tree
	if len(at) > 1 && len(c.stepAt) == 2 && at[0] == c.stepAt[0] && at[1] == c.stepAt[1] {
		v, at = c.step, at[2:]
	}
	for _, e := range at {
		switch e := e.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[e]
		case int:
			l, _ := v.([]any)
			if e >= len(l) {
				return nil
			}
			v = l[e]
		}
	}
	return v
}

// has tells whether the file gives a value at a path.
func (c *checker) has(at document.Path) bool { return c.value(at) != nil }

// isNumber tells whether the file gives a number: a zero in the plan may also
// mean that there is none, or that its fault is reported already.
func (c *checker) isNumber(at document.Path) bool {
	switch c.value(at).(type) {
	case int64, float64:
		return true
	}
	return false
}

// isEmptyText tells an empty text from none, and from one whose fault is
// reported already.
func (c *checker) isEmptyText(at document.Path) bool { return c.value(at) == "" }

// checkHead looks at all but the steps that the types alone cannot say. Fields
// whose fault is reported already are empty, so empty fields are passed over here.
func (c *checker) checkHead() {
	p := c.plan
	c.checkConst(p.APIVersion, plan.APIVersion, document.Path{"apiVersion"})
	c.checkConst(p.Kind, plan.PlanKind, document.Path{"kind"})
	c.checkLabel(p.Metadata.Name, document.Path{"metadata", "name"})
	c.checkRetry(p.Defaults.Retry, document.Path{"defaults", "retry"})
	c.checkClusters()
	if steps, ok := c.tree["steps"].([]any); ok && len(steps) == 0 {
		c.ReportField(document.Fault{Code: document.CodeMissingField, At: document.Path{"steps"}, Hint: "add a step"}, "the plan has no steps")
	}
}

// checkAll looks at what takes the steps of the whole plan.
func (c *checker) checkAll() {
	for _, e := range c.decls {
		for _, it := range e.instances {
			if it.child != nil {
				it.child.checkAll()
				continue
			}
			if it.step.Webhook == nil || e.isInclude {
				continue
			}
			s := it.step
			s.Name, s.Cluster = e.flatName(it), c.clusterName(s.Cluster)
			c.checkWhole(s, e, it)
		}
	}
}

func (c *checker) checkConst(got, want string, at document.Path) {
	if got != "" && got != want {
		c.Report(document.Fault{Code: document.CodeUnknownValue, At: at, Hint: "write " + want}, "%s is %q, but only %s is understood", at, document.Cut(got, 60), want)
	}
}

func (c *checker) checkLabel(name string, at document.Path) {
	if name != "" && (len(name) > 63 || !dnsLabel.MatchString(name)) {
		hint := labelHint
		if better := strings.Trim(strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace(strings.ToLower(name)), "-"); len(better) <= 63 && dnsLabel.MatchString(better) {
			hint = fmt.Sprintf("did you mean %q?", better)
		}
		c.Report(document.Fault{At: at, Hint: hint}, "%q cannot be a %s", document.Cut(name, 80), strings.ReplaceAll(labelKind(at), "_", " "))
	}
	if name == "" && c.isEmptyText(at) {
		c.Report(document.Fault{Code: document.CodeMissingField, At: at}, "the %s is empty", labelKind(at))
	}
}

// labelKind says what a name names: a plan, a step or a namespace.
func labelKind(at document.Path) string {
	switch last := at[len(at)-1].(string); {
	case last == "namespace":
		return last
	case at[0] == "metadata":
		return "plan's name"
	}
	return "step's name"
}

// kindNames are the fields of a step of which there is one.
var kindNames = []string{string(plan.KindHelm), string(plan.KindApply), string(plan.KindWait), string(plan.KindWebhook), string(plan.KindInclude)}

func (c *checker) checkKinds(s plan.Step, at document.Path) {
	step := c.step
	var given []string
	for _, k := range kindNames {
		if _, has := step[k]; has {
			given = append(given, k)
		}
	}
	switch len(given) {
	case 0:
		for k := range step {
			if c.near.Find(k, kindNames) != "" {
				return // a mistyped kind is reported as such
			}
		}
		c.Report(document.Fault{Code: document.CodeMissingField, At: at, Hint: "give it one of helm, apply, wait, webhook or include"}, "the step%s says nothing to do", named(s.Name))
	case 1:
	default:
		// The one that stands last in the file is the one too many.
		last := slices.MaxFunc(given, func(a, b string) int {
			p, q := c.Source.KeyPos(at.Key(a)), c.Source.KeyPos(at.Key(b))
			return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
		})
		c.ReportField(document.Fault{At: at.Key(last), Hint: "make a step of each"}, "the step%s is of more than one kind: %s", named(s.Name), strings.Join(given, " and "))
	}
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return " " + strconv.Quote(name)
}

// checkNeeds reports needs that no step has, those of a step that comes after all
// others, and cycles.
func (c *checker) checkNeeds() {
	var names []string
	allNamed := true
	for _, e := range c.decls {
		if e.name == "" {
			allNamed = allNamed && !c.has(e.at.Key("name"))
			continue
		}
		names = append(names, e.name)
	}
	for _, e := range c.decls {
		seen := make(map[string]bool, len(e.needs))
		for j, n := range e.needs {
			at := e.at.Key("needs").Index(j)
			if _, long := c.value(at).(map[string]any); long {
				at = at.Key("step")
			}
			target := c.target(n.Step)
			switch {
			case n.Step == "" && !c.isEmptyText(at):
			case n.Step != "" && n.Step == e.name && c.byName[e.name] != e: // the name is that of two
			case n.Step != "" && n.Step == e.name:
				c.Report(document.Fault{Code: document.CodeCycle, At: at, Hint: "remove it"}, "the step %q needs itself", n.Step)
			case seen[n.Step]:
				c.Report(document.Fault{Code: document.CodeDuplicate, At: at, Hint: "remove it"}, "the step %q is needed twice", n.Step)
			case target == nil && allNamed:
				c.Report(document.Fault{Code: document.CodeUnknownName, At: at, Hint: c.needHint(n.Step, names)}, "there is no step %q", n.Step)
			case target != nil && target.last && !e.last:
				c.Report(document.Fault{At: at, Hint: "the steps of finally run after all others"}, "the step %q needs %q, which is one of finally", e.name, n.Step)
			}
			seen[n.Step] = true
		}
	}
	for _, cycle := range c.fileGraph().Cycles() {
		if len(cycle) > 1 {
			e := c.byName[cycle[0]]
			j := slices.IndexFunc(c.localNeeds(e), func(n plan.Need) bool { return n.Step == cycle[1] })
			c.Report(document.Fault{Code: document.CodeCycle, At: e.at.Key("needs").Index(j), Hint: "each step needs the next one: remove one of these needs"}, "cycle: %s", strings.Join(append(cycle, cycle[0]), " -> "))
		}
	}
}

func (c *checker) needHint(n string, names []string) string {
	if hint := c.near.Hint(n, names); hint != "" {
		return hint
	}
	if len(names) <= 10 {
		return "the steps are " + document.Cut(strings.Join(names, ", "), 120)
	}
	return ""
}

// graph is the graph of the whole plan, made once.
func (c *checker) graph() *plan.Graph {
	c = c.root()
	if c.steps == nil {
		c.steps = c.plan.Graph()
	}
	return c.steps
}
