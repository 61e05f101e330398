package load

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// newEnv is what expressions see: a cluster. Labels have no other values than text, so a
// dash in the name of one is never a minus.
func newEnv() *expr.Env {
	cluster := expr.NewObject("cluster", expr.Fields(map[string]expr.Type{
		"name": expr.String, "namespace": expr.String, "labels": expr.MapOf(expr.String), "annotations": expr.MapOf(expr.String),
	}))
	return expr.NewEnv(map[string]expr.Type{"cluster": cluster.Type()}, func(at []string) bool {
		return len(at) == 3 && at[0] == "cluster" && (at[1] == "labels" || at[1] == "annotations")
	})
}

// valuesOf is what expressions see of a cluster.
func valuesOf(c fleet.Cluster) map[string]any {
	return map[string]any{"cluster": map[string]any{
		"name": c.Name, "namespace": c.Namespace, "labels": texts(c.Labels), "annotations": texts(c.Annotations),
	}}
}

func texts(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

// Takes reports whether an inventory entry takes a cluster that it finds: whether its
// Select is true of it. The error is a document.Diagnostics.
func (f *Fleet) Takes(entry int, c fleet.Cluster) (bool, error) {
	if f.takes[entry] == nil {
		return true, nil
	}
	return f.holds(f.takes[entry], c, f.Inventory[entry].Select, path{"inventory", entry, "select"})
}

// Selects reports whether the Select of a wave is true of a cluster. A wave without one
// selects none: it has what no other wave has. The error is a document.Diagnostics.
func (f *Fleet) Selects(wave int, c fleet.Cluster) (bool, error) {
	if f.selects[wave] == nil {
		return false, nil
	}
	return f.holds(f.selects[wave], c, f.Waves[wave].Select, path{"waves", wave, "select"})
}

// Wave returns the index of the one wave that has a cluster. That none has it, or two, is an
// error; it is a document.Diagnostics.
func (f *Fleet) Wave(c fleet.Cluster) (int, error) {
	found := -1
	for i := range f.Waves {
		selected, err := f.Selects(i, c)
		switch {
		case err != nil:
			return 0, err
		case selected && found >= 0:
			return 0, f.Fault("let the select of one of them leave it out", fmt.Sprintf("the cluster %s is in two waves, %q and %q", c.Name, f.Waves[found].Name, f.Waves[i].Name), "waves", i, "select")
		case selected:
			found = i
		}
	}
	last := len(f.Waves) - 1
	switch {
	case found >= 0:
		return found, nil
	case f.selects[last] == nil:
		return last, nil
	}
	return 0, f.Fault("a last wave without select has what no other has; or let inventory leave the cluster out", fmt.Sprintf("the cluster %s is in no wave", c.Name), "waves")
}

// Vars returns the values that the fleet gives the plan's variables for a cluster. The error
// is a document.Diagnostics with every fault.
func (f *Fleet) Vars(c fleet.Cluster) (map[string]any, error) {
	if len(f.Fleet.Vars) == 0 {
		return nil, nil
	}
	e := &evaluation{Fleet: f, Reporter: f.reporter(), cluster: c, values: valuesOf(c), cost: expr.NewBudget()}
	v, _ := e.value(f.Fleet.Vars, path{"vars"}).(map[string]any)
	return v, e.Err()
}

// Literal reports whether the values of variables are the same for all clusters.
func (f *Fleet) Literal() bool { return !hasExpression(f.Fleet.Vars) }

// Fault is the error of what is wrong at a field of the file: a document.Diagnostics.
func (f *Fleet) Fault(hint, message string, fields ...any) error {
	r := f.reporter()
	place := f.source.Place(fields...)
	r.Add(f.source, place.Pos, fault{At: fields, Hint: hint}, "%s", message)
	return r.Err()
}

// Place is where the value at a path of fields stands in the file.
func (f *Fleet) Place(fields ...any) document.Place { return f.source.Place(fields...) }

func (f *Fleet) reporter() document.Reporter {
	return document.Reporter{Faults: &document.Faults{Secrets: f.secrets}, Source: f.source}
}

// holds reports whether a condition is true of a cluster.
func (f *Fleet) holds(p *expr.Program, c fleet.Cluster, text string, at path) (bool, error) {
	v, err := p.Eval(valuesOf(c), expr.NewBudget())
	if err == nil {
		if b, is := v.(bool); is {
			return b, nil
		}
		err = &expr.Error{Message: "the expression gives " + document.DescribeType(v) + ", not true or false"}
	}
	r, e := f.reporter(), asExprError(err)
	hint := explainEval(p, e, c, "%[1]s && …")
	r.Add(f.source, f.source.PlainPos(at, text, e.Offset), fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
	return false, r.Err()
}

// explainEval says of an expression without a value which label of the cluster is missing,
// and how to ask for it: form takes the question, and the label.
func explainEval(p *expr.Program, e *expr.Error, c fleet.Cluster, form string) (hint string) {
	for _, r := range p.Refs() {
		if len(r.Path) < 3 || r.Tested || r.Path[0] != "cluster" {
			continue
		}
		what, has := "label", c.Labels
		if r.Path[1] == "annotations" {
			what, has = "annotation", c.Annotations
		}
		name := r.Path[2]
		if _, known := has[name]; known {
			continue
		}
		e.Offset = r.Offset
		e.Message = fmt.Sprintf("the cluster %s has no %s %q", c.Name, what, name)
		all := "cluster." + r.Path[1]
		ask, value := fmt.Sprintf("has(%s.%s)", all, name), all+"."+name
		if !plainName.MatchString(name) {
			ask, value = fmt.Sprintf("%q in %s", name, all), fmt.Sprintf("%s[%q]", all, name)
		}
		return "give it one, or ask first: " + fmt.Sprintf(form, ask, value)
	}
	e.Message = fmt.Sprintf("for the cluster %s: %s", c.Name, e.Message)
	return ""
}

var plainName = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_]*$`)

func asExprError(err error) *expr.Error {
	if e, ok := errors.AsType[*expr.Error](err); ok {
		return new(*e)
	}
	return &expr.Error{Message: err.Error()}
}

// oneLine is an expression on one line, for a message.
func oneLine(text string) string { return document.Cut(strings.Join(strings.Fields(text), " "), 60) }

// Found is a cluster that is known from the file alone.
type Found struct {
	// Entry is the index of the inventory entry that lists it.
	Entry   int
	Cluster fleet.Cluster
}

// Listed returns the clusters that the file lists, in its order, whether their entry takes
// them or not.
func (f *Fleet) Listed() []Found {
	var all []Found
	for i, entry := range f.Inventory {
		for _, c := range entry.List {
			all = append(all, Found{i, f.listed(c)})
		}
	}
	return all
}

func (f *Fleet) listed(c fleet.Listed) fleet.Cluster {
	found := fleet.Cluster{
		Name: c.Name, Labels: c.Labels, Annotations: c.Annotations, Source: fleet.Source{Kind: "list"},
		Access: fleet.Access{Secret: c.KubeconfigSecret, Kubeconfig: c.Kubeconfig, Context: c.Context, DefaultNamespace: c.Namespace},
	}
	if c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig) {
		found.Access.Kubeconfig = filepath.Join(f.Dir, c.Kubeconfig)
	}
	return found
}
