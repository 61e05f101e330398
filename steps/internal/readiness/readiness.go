// Package readiness says by rules in CEL whether objects are ready: those of a plan, and
// ready-made ones for kinds of which their status alone does not tell, or not in
// the usual form. The folder rules has these, with where they are from.
//
// It asks no cluster. Kinds without a rule are not its matter.
package readiness

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/webhook/expression"
)

// Verdict is what a rule says of an object.
type Verdict struct {
	Ready, Failed bool
	// Reason says why the object is not ready, or has failed; "" where nobody knows.
	Reason string
}

// Rules are those of one step. Nil are the ready-made ones. They are safe for concurrent use.
type Rules struct{ own map[schema.GroupKind]*rule }

// New compiles the rules of a plan. What can be wrong with them beyond their syntax is
// a function that the API server's CEL does not have.
func New(ready map[string]plan.Readiness) (*Rules, error) {
	if len(ready) == 0 {
		return nil, nil
	}
	r := &Rules{own: map[schema.GroupKind]*rule{}}
	for kind, spec := range ready {
		made := &rule{spec: spec}
		if err := made.compile(); err != nil {
			return nil, fmt.Errorf("ready: %s: %w", kind, err)
		}
		r.own[schema.ParseGroupKind(kind)] = made
	}
	return r, nil
}

// Own reports whether the plan has a rule for a kind.
func (r *Rules) Own(kind schema.GroupKind) bool { return r != nil && r.own[kind] != nil }

// Judge asks the rule of an object's kind; it is not known where there is none.
func (r *Rules) Judge(u *unstructured.Unstructured) (v Verdict, known bool) {
	kind := u.GroupVersionKind().GroupKind()
	made := (*rule)(nil)
	if r != nil {
		made = r.own[kind]
	}
	if made == nil {
		made = readyMade()[kind]
	}
	if made == nil {
		return Verdict{}, false
	}
	if err := made.compile(); err != nil {
		return Verdict{Reason: err.Error()}, true // a test compiles all
	}
	if observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); found && err == nil && observed < u.GetGeneration() {
		return Verdict{Reason: fmt.Sprintf("its controller has not looked at generation %d yet", u.GetGeneration())}, true
	}
	return made.judge(u.Object), true
}

// rule is what is known of a kind.
type rule struct {
	spec plan.Readiness

	once                   sync.Once
	err                    error
	ready, failed, message *expression.Expression
}

// compile makes the expressions, once: that takes a moment, and most kinds are never met.
func (r *rule) compile() error {
	r.once.Do(func() {
		for _, e := range []struct {
			text string
			into **expression.Expression
		}{{r.spec.Ready, &r.ready}, {r.spec.Failed, &r.failed}, {r.spec.Message, &r.message}} {
			if e.text == "" {
				continue
			}
			made, err := expression.Compile(e.text, "object")
			if err != nil {
				r.err = err
				return
			}
			*e.into = made
		}
	})
	return r.err
}

func (r *rule) judge(object map[string]any) Verdict {
	vars := map[string]any{"object": object}
	ready, why := holds(r.ready, vars)
	if ready {
		return Verdict{Ready: true}
	}
	v := Verdict{}
	if r.failed != nil {
		v.Failed, _ = holds(r.failed, vars)
	}
	if r.message != nil {
		if text, err := r.message.Eval(vars); err == nil {
			if s, ok := text.Value().(string); ok {
				v.Reason = s
			}
		}
	}
	if v.Reason == "" {
		v.Reason = unmet(object)
	}
	if v.Reason == "" {
		v.Reason = why
	}
	return v
}

// absent is what CEL says of a field that is not there.
var absent = regexp.MustCompile(`no such (?:key|attribute)[^:]*: (\S+)`)

// holds reports whether an expression is true. One that cannot be evaluated is not: mostly a
// field is not there yet.
func holds(e *expression.Expression, vars map[string]any) (ok bool, why string) {
	value, err := e.Eval(vars)
	switch {
	case err == nil:
		return value == types.True, "not yet: " + strings.Join(strings.Fields(e.String()), " ")
	case absent.MatchString(err.Error()):
		return false, "it has no " + absent.FindStringSubmatch(err.Error())[1] + " yet"
	}
	return false, "ready cannot be evaluated yet: " + err.Error()
}

// unmet is what the first condition says that is not true, and has something to say.
func unmet(object map[string]any) string {
	list, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, item := range list {
		c, _ := item.(map[string]any)
		if c["status"] == "True" {
			continue
		}
		for _, key := range []string{"message", "reason"} {
			if text, _ := c[key].(string); text != "" {
				return fmt.Sprintf("%s is %s: %s", c["type"], c["status"], text)
			}
		}
	}
	return ""
}

//go:embed rules/*.yaml
var files embed.FS

// readyMade are the rules of the folder rules, by kind.
var readyMade = sync.OnceValue(func() map[schema.GroupKind]*rule {
	all := map[schema.GroupKind]*rule{}
	names, err := fs.Glob(files, "rules/*.yaml")
	if err != nil {
		panic(err) // the pattern is good
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it was listed
		}
		var group map[string]plan.Readiness
		if err := yaml.UnmarshalStrict(text, &group); err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // a test reads all
		}
		for kinds, spec := range group {
			for kind := range strings.FieldsSeq(kinds) {
				all[schema.ParseGroupKind(kind)] = &rule{spec: spec}
			}
		}
	}
	return all
})
