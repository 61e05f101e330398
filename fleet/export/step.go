package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

func shortDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// step is a step that becomes an object: it knows which of its fields were taken, so that
// the others can be told of.
type step struct {
	*exporter
	plan.Step
	fields map[string]any // as the plan has them, with defaults that it gives
	taken  map[string]bool
}

// steps are those of a plan in an order that respects their needs.
func (x *exporter) steps(p *plan.Plan) ([]*step, error) {
	byName := map[string]plan.Step{}
	for _, s := range p.Steps {
		byName[s.Name] = s
	}
	var all []*step
	for _, name := range p.Graph().Order() {
		s := byName[name]
		if s.Skip != "" {
			x.changed(s.Locate(), "", "the step %s does not run, and is left out: %s", s.Name, s.Skip)
			continue
		}
		st, err := x.step(s)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

func (x *exporter) step(s plan.Step) (*step, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", s.Name, err)
	}
	st := &step{exporter: x, Step: s, taken: map[string]bool{}}
	if err := json.Unmarshal(b, &st.fields); err != nil {
		return nil, fmt.Errorf("step %s: %w", s.Name, err)
	}
	st.take("name", "description", "tags", "for_each", "helm", "apply", "wait", "webhook", "delete")
	return st, nil
}

// take notes that fields are in the export, by their paths, such as helm.chart.
func (s *step) take(paths ...string) {
	for _, p := range paths {
		s.taken[p] = true
	}
}

// lose says of a field, if the step has it, that it is lost.
func (s *step) lose(path, hint, format string, args ...any) {
	if s.has(path) && !s.taken[path] {
		s.lost(s.at(path), hint, "step %s: "+format, append([]any{s.Name}, args...)...)
	}
	s.take(path)
}

// has reports whether the step says something of a field.
func (s *step) has(path string) bool {
	first, rest, inner := strings.Cut(path, ".")
	v, is := s.fields[first]
	if inner {
		m, _ := v.(map[string]any)
		v, is = m[rest]
	}
	return is && v != nil && v != false && v != ""
}

// at is where a field stands in the plan.
func (s *step) at(path string) document.Place {
	var fields []any
	for f := range strings.SplitSeq(path, ".") {
		fields = append(fields, f)
	}
	return s.Locate(fields...)
}

// end tells of all fields that nobody took, and of what each step of a kind loses.
func (s *step) end() {
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		inner, isMap := s.fields[name].(map[string]any)
		if !s.taken[name] || !isMap || name == "for_each" {
			s.lose(name, "", "%s is left out: %s has nothing like it", name, s.target.Title)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(inner)) {
			path := name + "." + field
			s.lose(path, "", "%s is left out: %s has nothing like it", path, s.target.Title)
		}
	}
	if s.Pending != nil {
		for _, in := range s.Pending.Inputs {
			s.lost(s.Locate(), "give it in another way, such as a Secret that exists before", "step %s: %s is known only when the plan runs, and what is made of it is left out", s.Name, in)
		}
	}
}
