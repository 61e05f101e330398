package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Named returns the names of those steps of a kind that names mean. A name means what
// it does in a Selection. The error is a *SelectionError, and names the flag that the
// names were given to.
func (p *Plan) Named(flag string, kind Kind, names ...string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, name := range names {
		meant, of, is := 0, 0, Kind("")
		for _, s := range p.Steps {
			if !s.IsPart(name) {
				continue
			}
			meant++
			if s.Kind() == kind {
				of++
				found[s.Name] = true
			}
			if s.Name == name {
				is = s.Kind()
			}
		}
		there := p.StepNamesOf(kind)
		switch {
		case meant == 0:
			return nil, unknown(flag, "step", name, there)
		case of == 0:
			return nil, wrongKind(flag, name, kind, is, there)
		}
	}
	return found, nil
}

// wrongKind says that a name means steps, but none of a kind. Of a for_each or an
// include, is is "".
func wrongKind(flag, name string, kind, is Kind, there []string) error {
	message := fmt.Sprintf("%s: the step %q is of kind %s, not %s", flag, name, is, kind)
	if is == "" {
		message = fmt.Sprintf("%s: no step of %q is a %s step", flag, name, kind)
	}
	const most = 5
	hint := "it takes: " + strings.Join(there, ", ")
	switch n := len(there); {
	case n == 0:
		hint = fmt.Sprintf("the plan has no %s steps", kind)
	case n > most:
		hint = fmt.Sprintf("it takes: %s and %d more", strings.Join(there[:most], ", "), n-most)
	}
	return &SelectionError{message, hint}
}

// StepNamesOf are those of StepNames that mean a step of a kind.
func (p *Plan) StepNamesOf(kind Kind) []string {
	return slices.DeleteFunc(p.StepNames(), func(name string) bool {
		return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind() == kind && s.IsPart(name) })
	})
}
