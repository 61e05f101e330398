// Package finding is what a check of a plan or a cluster says: which rule is broken,
// how bad that is, where, and what to do about it. The rules of plan/lint, the questions
// to clusters of steps/preflight, the checks of doctor and the faults that keep a plan
// from being read are all told in this form.
//
// It finds nothing and writes nothing.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
)

// Severity says how bad a finding is.
type Severity string

// The severities, from the worst on.
const (
	// Error is for what fails, or cannot be meant.
	Error Severity = "error"
	// Warning is for what may fail, or is worse than it has to be.
	Warning Severity = "warning"
	// Note is for what is good to know, and needs nothing done.
	Note Severity = "note"
)

// Rule is what findings can be of.
type Rule struct {
	// ID names the rule. It never changes.
	ID string
	// Severity is that of the rule's findings. Some may be softer.
	Severity Severity
	// Summary says in one line what is found.
	Summary string
	// Explanation says what goes wrong, and how to mend it. "" is no more than Summary.
	Explanation string
}

// Finding is one thing that a check has to say about a place.
type Finding struct {
	document.Pos
	Severity Severity `json:"severity"`
	// Rule is the ID of the rule, or the code of a diagnostic.
	Rule string `json:"code"`
	// Path is the place as a path of fields: steps[0].helm.chart.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
	// Excerpt is the line of the file, and a second one with a caret.
	Excerpt string `json:"excerpt,omitempty"`
	// Step is the step that it concerns. "" is none.
	Step string `json:"-"`
	// Object is what it is about in a cluster, as Kind/namespace/name or Kind/name. "" is
	// nothing.
	Object string `json:"object,omitempty"`
	// Cluster is the plan's name of that cluster; "" is that of the command line.
	Cluster string `json:"cluster,omitempty"`
	// Evidence is what was read of the cluster, in the order in which it tells the reason.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one field of an object that a finding rests on. No field of a Secret's
// data is evidence.
type Evidence struct {
	// Object is the object as Finding.Object has it.
	Object string `json:"object"`
	// Field is its path, such as webhooks[0].clientConfig.caBundle.
	Field string `json:"field"`
	// Value says what the field has, for people.
	Value string `json:"value"`
}

// ID names a finding of a cluster from one examination to the next: its rule and object.
func (f Finding) ID() string { return f.Rule + ":" + f.Object }

// String renders the finding as a Diagnostic is, with its severity and rule.
func (f Finding) String() string {
	d := f.diagnostic()
	d.Message = fmt.Sprintf("%s: %s [%s]", f.Severity, f.Message, f.Rule)
	return d.String()
}

func (f Finding) diagnostic() document.Diagnostic {
	return document.Diagnostic{Pos: f.Pos, Code: document.Code(f.Rule), Path: f.Path, Message: f.Message, Hint: f.Hint, Excerpt: f.Excerpt}
}

// InFile reports whether the finding is of a file, and not of an argument of the
// command line such as --set.
func (f Finding) InFile() bool { return f.File != "" && !strings.HasPrefix(f.File, "--") }

// Of returns the findings that a plan's diagnostics are.
func Of(ds document.Diagnostics) []Finding {
	all := make([]Finding, len(ds))
	for i, d := range ds {
		all[i] = Finding{
			Pos: d.Pos, Severity: Error, Rule: string(d.Code), Path: d.Path, Message: d.Message, Hint: d.Hint, Excerpt: d.Excerpt,
		}
	}
	return all
}

// Diagnostics returns the findings that make a plan a bad one. It is nil when
// there are none.
func Diagnostics(all []Finding) error {
	var ds document.Diagnostics
	for _, f := range all {
		if f.Severity == Error {
			ds = append(ds, f.diagnostic())
		}
	}
	if len(ds) == 0 {
		return nil
	}
	return ds
}

// Codes returns the rules that a plan's diagnostics are of.
func Codes() []Rule {
	var rules []Rule
	for _, c := range document.Codes {
		rules = append(rules, Rule{ID: string(c.Code), Summary: c.About, Severity: Error})
	}
	return rules
}

// Sort puts findings in the order of their places. Those of a file for which
// order has a number come by that number, before others by name.
func Sort(all []Finding, order map[string]int) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}
