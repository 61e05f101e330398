package lint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Remedy is a way to mend findings of secret-before-certificate.
type Remedy string

// The remedies.
const (
	// WaitStep adds a step to the plan that waits for the Certificate.
	WaitStep Remedy = "wait"
	// InitContainer lets the pods wait for the Secret's files.
	InitContainer Remedy = "init-container"
)

// Remedies are all remedies.
var Remedies = []Remedy{WaitStep, InitContainer}

// Refusal is a finding that a remedy does not mend.
type Refusal struct {
	finding.Finding
	// Why says what is in the way.
	Why error
}

// Fix returns the edits that mend the findings which a remedy is for, and the
// findings that it cannot mend. Findings of other rules are for people.
func Fix(in Input, findings []finding.Finding, how Remedy) ([]Edit, []Refusal) {
	m := &fixer{linter: newLinter(in), names: map[string]map[string]bool{}, waits: map[waitKey]string{}, needs: map[string]*needs{}, made: map[string][]*plan.Step{}}
	rule, _ := Find("secret-before-certificate")
	checkSecrets(&pass{m.linter, rule})
	place := make(map[string]int, len(in.Plan.Steps))
	for i := range in.Plan.Steps {
		s := &in.Plan.Steps[i]
		place[s.Name] = i
		m.made[written(s)] = append(m.made[written(s)], s)
	}
	findings = slices.Clone(findings)
	// In the plan's order, so that a wait stands before the first step that needs it.
	slices.SortStableFunc(findings, func(a, b finding.Finding) int { return cmp.Compare(place[a.Step], place[b.Step]) })
	var refused []Refusal
	for _, f := range findings {
		missing, mendable := m.missing[f.String()]
		if !mendable {
			continue
		}
		mend := m.addWait
		if how == InitContainer {
			mend = m.addContainer
		}
		if err := mend(missing); err != nil {
			refused = append(refused, Refusal{f, err})
		}
	}
	for _, n := range m.order {
		m.edits = append(m.edits, n.edit())
	}
	return m.edits, refused
}

// fixer collects edits. A step that for_each or several includes make many of is
// written once, and so edited once: edits are known by where a step is written.
type fixer struct {
	*linter
	edits []Edit
	// made are the steps that are written in one place.
	made map[string][]*plan.Step
	// names are those of each file's steps.
	names map[string]map[string]bool
	// waits are the wait steps that were added.
	waits map[waitKey]string
	// needs are what steps will need besides, and order those in turn.
	needs map[string]*needs
	order []*needs
	// optional are volumes that have been edited.
	optional []*yamlv3.Node
}

// waitKey is a Certificate as the plan writes it.
type waitKey struct{ step, namespace, name string }

// needs are names that come into a step's needs.
type needs struct {
	editor
	step  *yamlv3.Node
	names []string
}

var (
	errSameStep = errors.New("the Certificate is sent by the same step, so that no step fits in between: put it into a step of its own, or use --fix=init-container")
	errLater    = errors.New("the Certificate's step needs this one: turn their order around")
	errFiles    = errors.New("the steps are in different files: add the wait step by hand")
	errLayout   = errors.New("the file is laid out in a way that is not understood: add it by hand")
	errForEach  = errors.New("each item of for_each has a Certificate of another name: add the wait step by hand")
)

// written says where a step is written.
func written(s *plan.Step) string {
	t, at := s.Origin.Text, s.Origin.At
	if t == nil {
		return s.Name
	}
	return fmt.Sprint(t.File(), at)
}

// addWait adds a step that waits for a Certificate, and the need of it.
func (m *fixer) addWait(w missingWait) error {
	text, at := w.step.Origin.Text, w.step.Origin.At
	certText, certAt := w.certificate.step.Origin.Text, w.certificate.step.Origin.At
	switch {
	case written(w.step) == written(w.certificate.step):
		return errSameStep
	case !w.separable:
		return errLater
	case text == nil || text != certText || len(at) < 2:
		return errFiles
	}
	e := newEditor(text)
	step, list, certStep := text.Find(at...), text.Find(at[:len(at)-1]...), text.Find(certAt...)
	if step == nil || list == nil || certStep == nil || step.Kind != yamlv3.MappingNode || len(step.Content) < 4 {
		return errLayout
	}
	cert, err := m.asWritten(w.certificate)
	if err != nil {
		return err
	}
	n := m.needs[written(w.step)]
	if n == nil {
		n = &needs{editor: e, step: step}
		if err := n.check(); err != nil {
			return err
		}
	}
	added, known := m.waits[cert]
	if !known {
		fields, err := waitFields(certStep, cert)
		if err != nil {
			return err
		}
		lead := ""
		if !flow(list) {
			if lead, known = e.isItem(step); !known {
				return errLayout
			}
		}
		added = m.freeName(text, cert.base(w.certificate))
		m.edits, m.waits[cert] = append(m.edits, e.waitStep(step, lead, append([]string{"name: " + added}, fields...))), added
	}
	if m.needs[written(w.step)] == nil {
		m.needs[written(w.step)], m.order = n, append(m.order, n)
	}
	if !slices.Contains(n.names, added) {
		n.names = append(n.names, added)
	}
	return nil
}

// waitStep inserts a step before another one, which has lead before it on its line,
// or is in brackets.
func (e editor) waitStep(step *yamlv3.Node, lead string, fields []string) Edit {
	if lead == "" {
		return e.before(step, "{"+strings.Join(fields, ", ")+"}, ")
	}
	return e.above(step, item(lead, fields))
}

// freeName makes the name of a step that waits for a Certificate.
func (m *fixer) freeName(t *document.Source, base string) string {
	taken := m.names[t.File()]
	if taken == nil {
		taken = map[string]bool{}
		for _, s := range slices.Concat(items(t.Find("steps")), items(t.Find("finally"))) {
			if n := get(s, "name"); n != nil {
				taken[n.Value] = true
			}
		}
		m.names[t.File()] = taken
	}
	base = strings.ReplaceAll(base, ".", "-")
	base = strings.Trim(base[:min(len(base), 50)], "-") + "-ready"
	free := base
	for i := 2; taken[free]; i++ {
		free = fmt.Sprintf("%s-%d", base, i)
	}
	taken[free] = true
	return free
}

// check returns why the step's needs cannot be edited.
func (n *needs) check() error {
	list := get(n.step, "needs")
	switch {
	case list == nil && flow(n.step), list != nil && list.Kind == yamlv3.SequenceNode && flow(list):
		return nil
	case list != nil && list.Kind == yamlv3.SequenceNode && len(list.Content) > 0:
		if _, ok := n.isItem(list.Content[0]); ok {
			return nil
		}
	case list == nil:
		// The line below the name's is that of the next field, or of a comment on it.
		if name := get(n.step, "name"); name != nil && name.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) == 0 {
			return nil
		}
	}
	return errLayout
}

// edit puts the names into the step's needs.
func (n *needs) edit() Edit {
	list := get(n.step, "needs")
	names := strings.Join(n.names, ", ")
	switch {
	case list == nil && flow(n.step):
		return n.before(n.step.Content[2], "needs: ["+names+"], ")
	case list == nil:
		indent := strings.Repeat(" ", n.step.Column-1)
		_, below, _ := bytes.Cut(n.text.Bytes()[n.text.Offset(get(n.step, "name")):], []byte("\n"))
		return n.insertAt(len(n.text.Bytes())-len(below), indent+"needs: ["+names+"]"+n.eol)
	case len(list.Content) == 0:
		return n.insertAt(n.text.Offset(list)+1, names)
	case flow(list):
		return n.before(list.Content[0], names+", ")
	}
	lead, _ := n.isItem(list.Content[0])
	var lines []string
	for _, name := range n.names {
		lines = append(lines, lead+name)
	}
	return n.above(list.Content[0], lines)
}
