package load

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// reads returns the first sensitive name of which the result of an expression may be
// made; "" when there is none.
func (s *scope) reads(p *expr.Program) (r expr.Ref, ok bool) {
	for _, r := range p.Refs() {
		if r.Shows && s.sensitive(r.Path) {
			return r, true
		}
	}
	return expr.Ref{}, false
}

// sensitive reports whether the value at a path must not be shown, or part of it.
func (s *scope) sensitive(at []string) bool {
	if len(at) < 2 {
		return false
	}
	switch at[0] {
	case "vars":
		return s.file.vars.IsSensitive(at[1])
	case "each":
		return at[1] == "value" && s.decl != nil && len(s.decl.secretAt) > 0
	case "steps":
		target := s.file.byName[at[1]]
		return target != nil && slices.ContainsFunc(target.refs[strings.Join(at, ".")], func(a reference) bool { return a.input.Sensitive })
	}
	return false
}

// shownField reports whether the value of a field stands in all that is shown: no
// secret can be kept out of it.
func shownField(at path) bool {
	if len(at) > 2 && (at[0] == "steps" || at[0] == "finally") {
		at = at[2:]
		switch at[0] {
		case "name", "needs", "tags", "cluster", "concurrency_group":
			return true
		case "include":
			return len(at) > 1 && (at[1] == "plan" || at[1] == "clusters")
		}
		return false
	}
	if len(at) > 2 && at[0] == "repositories" {
		return at[2] == "url"
	}
	return len(at) > 1 && at[0] == "defaults" && at[1] == "cluster"
}

// mayShow refuses a sensitive value where it would be shown.
func (x *expander) mayShow(p *expr.Program, s expr.Segment, at path, text string) bool {
	if !shownField(at) {
		return true
	}
	r, secret := x.scope.reads(p)
	if !secret {
		return true
	}
	x.addText(at, text, &expr.Error{
		Offset:  s.Offset + r.Offset,
		Message: "the field " + strconv.Quote(at.Last()) + " is always shown, but " + strings.Join(r.Path, ".") + " is sensitive",
	}, "use a variable that is not")
	return false
}

// keepSecret keeps out of all that is shown what an expression made of a sensitive
// value. Numbers, true and false are no secrets.
func (x *expander) keepSecret(p *expr.Program, v any, at path) {
	if _, secret := x.scope.reads(p); !secret {
		return
	}
	if x.secretAt == nil {
		x.secretAt = map[string]bool{}
	}
	x.secretAt[at.String()] = p.IsPath()
	if !p.IsPath() { // else it is known
		value.Any(v, func(v any) bool {
			if text, ok := v.(string); ok {
				x.Secrets.Add(text)
			}
			return false
		})
	}
}

// secretKeys reports whether the keys of a for_each, or of one of the items of its
// list, are made of a sensitive value.
func (e *stepDecl) secretKeys(v any, at path) bool {
	plain, secret := e.secretAt[at.String()]
	if !secret {
		return false
	}
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, value.IsScalar)
	case map[string]any:
		return !plain // else they are names of fields
	}
	return value.IsScalar(v)
}

// hasSecret reports whether the value at a path, or one below it, is made of a
// sensitive one.
func (it *instance) hasSecret(at path) bool {
	start := at.String()
	for known := range it.secretAt {
		if rest, ok := strings.CutPrefix(known, start); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}
