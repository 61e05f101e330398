// Package lint finds what is right in a plan by its grammar and goes wrong at two
// in the morning: races that nothing waits for, waits that never end, values that
// mean something else than they seem.
//
// It looks at a plan, and at the objects that its steps bring where the caller has
// them at hand. It asks no cluster, reads no file and renders no chart: package
// steps/analyze does that. What is not a plan at all is no matter of rules: see package load.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Input is what is looked at.
type Input struct {
	Plan *plan.Plan
	// Objects are those that each step sends, by the step's name; steps whose
	// objects nobody knows have none.
	Objects map[string][]Object
	// Canaries are the objects that each webhook step asks with by dry runs.
	Canaries map[string][]Object
	// Unread are the steps whose objects were to be had and could not be, with why.
	Unread map[string]error
	// Guards say which steps' objects webhooks of the plan judge.
	Guards []Guard
	// Values are the files of values that helm steps name.
	Values []*document.Source
	// Locked, when set, reports whether the plan's lock file has what is named so.
	Locked func(repo, name, version string) bool
}

// locked reports whether the lock file has what is named so.
func (in *Input) locked(repo, name, version string) bool {
	return in.Locked != nil && in.Locked(repo, name, version)
}

// Object is one that a step sends.
type Object struct {
	// Fields are the object as it is sent. Its namespace is empty for a kind that
	// has none.
	Fields map[string]any
	// Text is the document that it was read from, and At its path in there. Text is
	// nil for what a chart renders.
	Text *document.Source
	At   []any
}

// Guard says that webhooks which one step brings judge objects that another one,
// or the same, sends.
type Guard struct {
	Step, By string
	// Webhooks are the names of those that are called.
	Webhooks []string
	// Objects counts what they judge.
	Objects int
	// Maybe says that it is not certain, or not so on a first install.
	Maybe bool
}

// Run looks at the input by all rules but those that are disabled, by ID. The
// findings are in the order of the files and their lines.
func Run(in Input, disabled ...string) []finding.Finding {
	l := newLinter(in)
	for _, r := range rules {
		if !slices.Contains(disabled, r.ID) {
			r.check(&pass{l, r.Rule})
		}
	}
	files := map[string]int{}
	for i, t := range l.Plan.Texts {
		files[t.File()] = i - len(l.Plan.Texts)
	}
	finding.Sort(l.findings, files)
	// Steps that for_each made of one have the same findings.
	return slices.CompactFunc(l.findings, func(a, b finding.Finding) bool {
		return a.Rule == b.Rule && a.Pos == b.Pos && a.Message == b.Message
	})
}

// linter collects the findings of one plan.
type linter struct {
	Input
	findings []finding.Finding
	// missing are what mends findings of secret-before-certificate, by their text.
	missing map[string]missingWait
	// steps are those that may run, by name.
	steps map[string]*plan.Step
	graph *plan.Graph
	// evaluated are the files whose expressions are evaluated.
	evaluated map[string]bool
	// written are where values stand in the plan, and filed those of files of values.
	written, filed []root
}

func newLinter(in Input) *linter {
	l := &linter{Input: in, missing: map[string]missingWait{}, steps: make(map[string]*plan.Step, len(in.Plan.Steps)), graph: in.Plan.Graph(), evaluated: map[string]bool{}}
	for i := range in.Plan.Steps {
		if s := &in.Plan.Steps[i]; s.Skip == "" && s.When != false {
			l.steps[s.Name] = s
		}
		for file := range in.Plan.Steps[i].Evaluated {
			l.evaluated[in.Plan.Rel(file)] = true
		}
	}
	for _, t := range in.Plan.Texts {
		l.written = append(l.written, rootsOf(t)...)
	}
	for _, t := range in.Values {
		if n := t.Root(); n != nil {
			l.filed = append(l.filed, root{text: t, node: n})
		}
	}
	return l
}

// pass is the application of one rule to a plan.
type pass struct {
	*linter
	rule finding.Rule
}

// each calls f for every step that may run, in plan order.
func (l *linter) each(f func(*plan.Step)) {
	for i := range l.Plan.Steps {
		if s := &l.Plan.Steps[i]; l.steps[s.Name] == s {
			f(s)
		}
	}
}

// location is where a finding is: a place in a text.
type location struct {
	document.Place
	text *document.Source
	// secret keeps the line out of what is shown.
	secret bool
}

// locationOf is the place of a step's field.
func locationOf(s *plan.Step, fields ...any) location {
	return location{Place: s.Locate(fields...), text: s.Origin.Text}
}

// location is the place of a field of an object that the step sends. That of an object
// of a chart is where the plan names the chart.
func (o Object) location(s *plan.Step, fields ...any) location {
	if o.Text == nil {
		return locationOf(s, "helm", "chart")
	}
	return location{Place: o.Text.Place(slices.Concat(o.At, fields)...), text: o.Text}
}

// add notes a finding and returns it, unless a comment at its place says that it
// is known.
func (p *pass) add(severity finding.Severity, s *plan.Step, at location, hint, format string, args ...any) (noted finding.Finding, ok bool) {
	if at.text != nil && ignored(at.text, at.Line, p.rule.ID) {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		Pos: at.Pos, Severity: severity, Rule: p.rule.ID, Path: at.Path, Message: document.Clean(fmt.Sprintf(format, args...)), Hint: document.Clean(hint),
	}
	if s != nil {
		f.Step = s.Name
	}
	if !at.secret {
		f.Excerpt = at.Excerpt
	}
	p.findings = append(p.findings, f)
	return f, true
}

// cluster names the one that a step works on; "" is that of the command line.
func (l *linter) cluster(s *plan.Step) string { return cmp.Or(s.Cluster, l.Plan.Defaults.Cluster) }

// namespace is the one that a name of a step means. What no file tells is taken
// for default.
func (l *linter) namespace(s *plan.Step, name string) string {
	return cmp.Or(name, l.Plan.Clusters[l.cluster(s)].Namespace, "default")
}

// conditional reports whether only the run shows if the step is done.
func conditional(s *plan.Step) bool { return s.When != nil && s.When != true }

// field returns what stands at a path of names and, in lists, indices; nil when there
// is nothing.
func field(v any, at ...any) any {
	for _, step := range at {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			v = v.([]any)[step]
		}
	}
	return v
}

// text is field for a text.
func text(v any, at ...any) string {
	s, _ := field(v, at...).(string)
	return s
}

// list is field for a list.
func list(v any, at ...any) []any {
	l, _ := field(v, at...).([]any)
	return l
}

func (o Object) kind() string      { return text(o.Fields, "kind") }
func (o Object) name() string      { return text(o.Fields, "metadata", "name") }
func (o Object) namespace() string { return text(o.Fields, "metadata", "namespace") }

// group is the API group; "" is Kubernetes' oldest.
func (o Object) group() string {
	group, _, found := strings.Cut(text(o.Fields, "apiVersion"), "/")
	if !found {
		return ""
	}
	return group
}

// is names the object as messages do.
func (o Object) is() string { return fmt.Sprintf("%s %q", o.kind(), o.name()) }
