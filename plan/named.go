package plan

import (
	"fmt"
	"slices"
	"strings"
)

// KindError says that a flag takes steps of one kind, and was given a name that
// means none of these.
type KindError struct {
	// Flag is the flag of kplan run that takes the name.
	Flag, Name string
	// Kind is the kind that it takes, and Is that of the step; "" for the name of a
	// for_each or an include.
	Kind, Is Kind
	// There are names that it takes.
	There []string
}

func (e *KindError) Error() string {
	if e.Is == "" {
		return fmt.Sprintf("%s: no step of %q is a %s step", e.Flag, e.Name, e.Kind)
	}
	return fmt.Sprintf("%s: the step %q is of kind %s, not %s", e.Flag, e.Name, e.Is, e.Kind)
}

// Hint names what could be meant.
func (e *KindError) Hint() string {
	const most = 5
	switch n := len(e.There); {
	case n == 0:
		return fmt.Sprintf("the plan has no %s steps", e.Kind)
	case n > most:
		return fmt.Sprintf("it takes: %s and %d more", strings.Join(e.There[:most], ", "), n-most)
	}
	return "it takes: " + strings.Join(e.There, ", ")
}

// Named returns the names of those steps of a kind that names mean. A name means what
// it does in a Selection. The error is an *UnknownError or a *KindError, and names
// the flag that the names were given to.
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
			return nil, (&selector{plan: p}).unknown(flag, "step", name, there)
		case of == 0:
			return nil, &KindError{Flag: flag, Name: name, Kind: kind, Is: is, There: there}
		}
	}
	return found, nil
}

// StepNamesOf are those of StepNames that mean a step of a kind.
func (p *Plan) StepNamesOf(kind Kind) []string {
	return slices.DeleteFunc(p.StepNames(), func(name string) bool {
		return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind() == kind && s.IsPart(name) })
	})
}
