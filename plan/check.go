package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
func (c *checker) value(at path) any {
	var v any = c.tree
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
func (c *checker) has(at path) bool { return c.value(at) != nil }

// isNumber tells whether the file gives a number: a zero in the plan may also
// mean that there is none, or that its fault is reported already.
func (c *checker) isNumber(at path) bool {
	switch c.value(at).(type) {
	case int64, float64:
		return true
	}
	return false
}

// isEmptyText tells an empty text from none, and from one whose fault is
// reported already.
func (c *checker) isEmptyText(at path) bool { return c.value(at) == "" }

// checkPlan looks at all that the types alone cannot say. Fields whose fault is
// reported already are empty, so empty fields are passed over here.
func (c *checker) checkPlan() {
	p := c.plan
	c.checkConst(p.APIVersion, APIVersion, path{"apiVersion"})
	c.checkConst(p.Kind, PlanKind, path{"kind"})
	c.checkLabel(p.Metadata.Name, path{"metadata", "name"})
	c.checkRetry(p.Defaults.Retry, path{"defaults", "retry"})
	if steps, ok := c.tree["steps"].([]any); ok && len(steps) == 0 {
		c.addKey(path{"steps"}, "add a step", "the plan has no steps")
	}
	for i, s := range p.Steps {
		c.checkStep(s, path{"steps", i})
	}
	c.checkNames()
	c.checkNeeds()
}

func (c *checker) checkConst(got, want string, at path) {
	if got != "" && got != want {
		c.addValue(at, "write "+want, "%s is %q, but only %s is understood", at, cut(got, 60), want)
	}
}

func (c *checker) checkLabel(name string, at path) {
	if name != "" && (len(name) > 63 || !dnsLabel.MatchString(name)) {
		hint := labelHint
		if better := strings.Trim(strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace(strings.ToLower(name)), "-"); len(better) <= 63 && dnsLabel.MatchString(better) {
			hint = fmt.Sprintf("did you mean %q?", better)
		}
		c.addValue(at, hint, "%q cannot be a %s", cut(name, 80), strings.ReplaceAll(labelKind(at), "_", " "))
	}
	if name == "" && c.isEmptyText(at) {
		c.addValue(at, "", "the %s is empty", labelKind(at))
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

func (c *checker) checkRetry(r *Retry, at path) {
	if r == nil {
		return
	}
	n, d := at.key("install_retries"), at.key("retry_delay_seconds")
	if c.isNumber(n) && (r.InstallRetries < 1 || r.InstallRetries > maxInstallRetries) {
		c.addValue(n, "it counts the attempts in all: 1 is no retry", "install_retries is %d, but must be from 1 to %d", r.InstallRetries, maxInstallRetries)
	}
	if c.isNumber(d) && (r.RetryDelaySeconds <= 0 || r.RetryDelaySeconds > maxRetryDelay) {
		c.addValue(d, "it is the longest wait between two attempts; 0.1 is as good as none",
			"retry_delay_seconds is %v, but must be more than 0 and at most %d", r.RetryDelaySeconds, maxRetryDelay)
	}
}

func (c *checker) checkStep(s Step, at path) {
	c.checkLabel(s.Name, at.key("name"))
	c.checkRetry(s.Retry, at.key("retry"))
	c.checkKinds(s, at)
	if s.Helm != nil {
		c.checkHelm(s, at.key("helm"))
	}
	if s.Apply != nil {
		c.checkApply(*s.Apply, at.key("apply"))
	}
	if s.Wait != nil {
		c.checkWait(*s.Wait, at.key("wait"))
	}
	if s.Webhook != nil {
		c.checkWebhook(s, at.key("webhook"))
	}
}

// kindNames are the fields of a step of which there is one.
var kindNames = []string{string(KindHelm), string(KindApply), string(KindWait), string(KindWebhook)}

func (c *checker) checkKinds(s Step, at path) {
	step, ok := c.stepTree(at)
	if !ok {
		return
	}
	var given []string
	for _, k := range kindNames {
		if _, has := step[k]; has {
			given = append(given, k)
		}
	}
	switch len(given) {
	case 0:
		for k := range step {
			if c.nearest(k, kindNames) != "" {
				return // a mistyped kind is reported as such
			}
		}
		c.addValue(at, "give it one of helm, apply, wait or webhook", "the step%s says nothing to do", named(s.Name))
	case 1:
	default:
		// The one that stands last in the file is the one too many.
		last := slices.MaxFunc(given, func(a, b string) int {
			p, q := c.src.keyPos(at.key(a)), c.src.keyPos(at.key(b))
			return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
		})
		c.addKey(at.key(last), "make a step of each", "the step%s is of more than one kind: %s", named(s.Name), strings.Join(given, " and "))
	}
}

func (c *checker) stepTree(at path) (map[string]any, bool) {
	steps, _ := c.tree["steps"].([]any)
	i, _ := at[1].(int)
	step, ok := steps[i].(map[string]any)
	return step, ok
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return " " + strconv.Quote(name)
}

// checkNames reports steps that have a name twice.
func (c *checker) checkNames() {
	first := make(map[string]int, len(c.plan.Steps))
	for i, s := range c.plan.Steps {
		if s.Name == "" {
			continue
		}
		if j, dup := first[s.Name]; dup {
			c.addValue(path{"steps", i, "name"}, "the first one is on line "+strconv.Itoa(c.src.valuePos(path{"steps", j, "name"}).Line),
				"there are two steps with the name %q", s.Name)
			continue
		}
		first[s.Name] = i
	}
}

// checkNeeds reports needs that no step has, and cycles.
func (c *checker) checkNeeds() {
	names := make([]string, 0, len(c.plan.Steps))
	index := make(map[string]int, len(c.plan.Steps))
	allNamed := true
	for i, s := range c.plan.Steps {
		at := path{"steps", i, "name"}
		if s.Name == "" {
			allNamed = allNamed && !c.has(at)
			continue
		}
		names = append(names, s.Name)
		if _, dup := index[s.Name]; !dup {
			index[s.Name] = i
		}
	}
	needed := map[string]int{} // the last step that needs a name, from 1
	for i, s := range c.plan.Steps {
		for j, n := range s.Needs {
			at := path{"steps", i, "needs", j}
			_, known := index[n]
			again := needed[n] == i+1
			needed[n] = i + 1
			switch {
			case n == "" && !c.isEmptyText(at):
			case n != "" && n == s.Name:
				c.addValue(at, "remove it", "the step %q needs itself", n)
			case again:
				c.addValue(at, "remove it", "the step %q is needed twice", n)
			case !known && allNamed:
				c.addValue(at, c.needHint(n, names), "there is no step %q", n)
			}
		}
	}
	for _, cycle := range c.graph().Cycles() {
		if len(cycle) > 1 {
			i := index[cycle[0]]
			at := path{"steps", i, "needs", slices.Index(c.plan.Steps[i].Needs, cycle[1])}
			c.addValue(at, "each step needs the next one: remove one of these needs", "cycle: %s", strings.Join(append(cycle, cycle[0]), " -> "))
		}
	}
}

func (c *checker) needHint(n string, names []string) string {
	if near := c.nearest(n, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(names) <= 10 {
		return "the steps are " + cut(strings.Join(names, ", "), 120)
	}
	return ""
}

// graph is the plan's graph, made once.
func (c *checker) graph() *Graph {
	if c.steps == nil {
		c.steps = c.plan.Graph()
	}
	return c.steps
}
