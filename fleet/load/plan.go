package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	planload "github.com/kplan-dev/kplan/plan/load"
)

// read reads a file, up to one byte more than the most that is of use.
func read(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err == nil && info.IsDir():
		return nil, errors.New("is a folder, not a file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, document.MaxSize+1))
	return src, reason(err)
}

// reason leaves out of an error the path and the system call, which messages name already.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot read the file: %w", pe.Err)
	}
	return err
}

// checkPlan looks at the plan that the fleet names, as far as the fleet says something of it.
// It returns what is wrong with the plan itself.
func (p *pass) checkPlan(in Options) document.Diagnostics {
	if p.Plan.File == "" {
		return nil
	}
	p.PlanFile = p.Plan.File
	if !filepath.IsAbs(p.PlanFile) {
		p.PlanFile = filepath.Join(p.Dir, p.PlanFile)
	}
	src, err := read(p.PlanFile)
	if err != nil {
		p.Report(fault{Code: document.CodeFile, At: path{"plan", "file"}, Hint: "the path is relative to the fleet file"}, "the plan %s cannot be used: %s", document.Clean(p.Plan.File), document.Clean(err.Error()))
		return nil
	}
	p.PlanName = beside(p.File, p.Plan.File)
	in.Unset, in.Fleet = true, p.literals()
	declared, err := planload.Vars(p.PlanName, in)
	faults, _ := err.(document.Diagnostics) //nolint:errorlint // the contract is the type itself
	if declared == nil {
		return faults
	}
	var more document.Diagnostics
	for _, d := range faults {
		if variable, of := strings.CutPrefix(d.File, fleetPrefix); of && d.Line == 0 {
			p.reportVar(variable, d)
		} else {
			more = append(more, d)
		}
	}
	p.checkTarget(src)
	p.checkVars(declared)
	return more
}

// PlanOf returns the path of the plan that a fleet file names, whatever else is wrong with
// that; "" when it cannot be told.
func PlanOf(name string) string {
	src, err := read(name)
	if err != nil {
		return ""
	}
	_, tree, _ := document.Read(name, src, document.Options{Keys: document.FleetKeys}, &document.Faults{})
	root, _ := tree.(map[string]any)
	ref, _ := root["plan"].(map[string]any)
	file, _ := ref["file"].(string)
	if file == "" {
		return ""
	}
	return beside(name, file)
}

// beside is a path that is relative to a file, as people know it.
func beside(name, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(name), path)
}

// fleetPrefix is what package plan/load calls the place of a fleet's values.
const fleetPrefix = "vars of the fleet: "

// Blame tells at the fleet's own lines what a plan has to say of the values that it was given
// for a cluster; all other faults are left as they are.
func (f *Fleet) Blame(err error, c fleet.Cluster) error {
	faults, ok := errors.AsType[document.Diagnostics](err)
	if !ok {
		return err
	}
	r := f.reporter()
	var rest document.Diagnostics
	for _, d := range faults {
		name, of := strings.CutPrefix(d.File, fleetPrefix)
		if !of || d.Line > 0 {
			rest = append(rest, d)
			continue
		}
		message := d.Message
		if c.Name != "" {
			message = "for the cluster " + c.Name + ": " + message
		}
		r.Report(fault{Code: d.Code, At: path{"vars", name}, Hint: d.Hint}, "%s", message)
	}
	return join(r.Err(), rest)
}

// literals are the variables whose values have no expressions.
func (p *pass) literals() map[string]any {
	all := map[string]any{}
	for name, v := range p.Fleet.Fleet.Vars {
		if !hasExpression(v) {
			all[name] = v
		}
	}
	return all
}

func hasExpression(v any) bool {
	switch v := v.(type) {
	case string:
		return expr.Has(v)
	case []any:
		return slices.ContainsFunc(v, hasExpression)
	case map[string]any:
		for _, x := range v {
			if hasExpression(x) {
				return true
			}
		}
	}
	return false
}

// reportVar tells at its place what the plan has to say of a value.
func (p *pass) reportVar(name string, d document.Diagnostic) {
	f := fault{Code: d.Code, At: path{"vars", name}, Hint: d.Hint}
	if d.Code == document.CodeUnknownName {
		p.ReportField(f, "%s", d.Message)
	} else {
		p.Report(f, "%s", d.Message)
	}
	p.bad[name] = true
}

// checkTarget looks whether the plan has the cluster that those of the fleet take the place
// of. Without a name that is the one of steps that name none.
func (p *pass) checkTarget(src []byte) {
	_, tree, ok := document.Read(p.PlanFile, src, document.Options{Keys: document.PlanKeys}, &document.Faults{})
	root, _ := tree.(map[string]any)
	if p.Plan.Cluster == "" {
		defaults, _ := root["defaults"].(map[string]any)
		p.Plan.Cluster, _ = defaults["cluster"].(string)
		return
	}
	clusters, isMap := root["clusters"].(map[string]any)
	if _, known := clusters[p.Plan.Cluster]; known || !ok || !isMap && root["clusters"] != nil {
		return
	}
	hint := p.near.Hint(p.Plan.Cluster, slices.Sorted(maps.Keys(clusters)))
	if hint == "" && len(clusters) > 0 {
		hint = "its clusters are " + document.Cut(strings.Join(slices.Sorted(maps.Keys(clusters)), ", "), 120)
	}
	p.Report(fault{Code: document.CodeUnknownName, At: path{"plan", "cluster"}, Hint: cmp.Or(hint, "it declares none: remove the field to mean the cluster of all its steps")}, "the plan has no cluster %q", document.Cut(p.Plan.Cluster, 80))
}

// varTypes are the types of expressions that give the values of variables.
var varTypes = map[plan.VarType]struct {
	is   []expr.Type
	noun string
	hint string
}{
	plan.VarString:  {[]expr.Type{expr.String}, "text", "convert it: string(%s)"},
	plan.VarNumber:  {[]expr.Type{expr.Int, expr.Double}, "a number", "convert it: double(%s)"},
	plan.VarInteger: {[]expr.Type{expr.Int}, "a whole number", "convert it: int(%s)"},
	plan.VarBoolean: {[]expr.Type{expr.Bool}, "true or false", `compare it: %s == "true"`},
	plan.VarList:    {[]expr.Type{expr.List}, "a list", "split it: %s.split(\"_\")"},
	plan.VarMap:     {[]expr.Type{expr.Map}, "a mapping", ""},
}

// checkVars looks whether the plan's variables take what the fleet gives them.
func (p *pass) checkVars(declared *plan.Plan) {
	known := map[string]plan.Variable{}
	for _, v := range declared.Variables {
		known[v.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(p.Fleet.Fleet.Vars)) {
		at, value := path{"vars", name}, p.Fleet.Fleet.Vars[name]
		v, is := known[name]
		switch {
		case is && v.Sensitive:
			p.Source.Hide(at)
			p.secrets.Add(value)
			p.ReportField(fault{Code: document.CodeVariable, At: at, Hint: "values of a fleet are kept and shown: let the plan read it by secret: of the variable"}, "the variable %q is sensitive, and a fleet cannot give it", name)
		case !is && !p.bad[name]:
			p.ReportField(fault{Code: document.CodeUnknownName, At: at, Hint: p.varHint(name, declared)}, "the plan declares no variable %q", name)
		case is && !p.bad[name]:
			p.checkType(v.Type, value, at)
		}
	}
}

// varHint says which variables there are.
func (p *pass) varHint(name string, declared *plan.Plan) string {
	var names []string
	for _, v := range declared.Variables {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return "it declares none"
	}
	return cmp.Or(p.near.Hint(name, names), "it declares "+document.Cut(strings.Join(names, ", "), 120))
}

// checkType reports an expression that never gives what a variable takes.
func (p *pass) checkType(want plan.VarType, value any, at path) {
	takes, limited := varTypes[want]
	if !limited || !hasExpression(value) {
		return
	}
	given, text := expr.Map, ""
	switch v := value.(type) {
	case []any:
		given = expr.List
	case string:
		text = v
		given, _ = p.compileQuietly(v)
	}
	if slices.ContainsFunc(takes.is, given.Is) {
		return
	}
	hint := ""
	if segments, err := expr.Split(text); err == nil && len(segments) == 1 && takes.hint != "" {
		hint = fmt.Sprintf(takes.hint, oneLine(segments[0].Text))
	}
	p.Add(p.Source, p.Source.ValuePos(at), fault{Code: document.CodeVariable, At: at, Hint: hint}, "the plan's variable %q takes %s, but the expression gives %s", at.Last(), takes.noun, given.About())
}

// compileQuietly is the type of a text whose faults are reported.
func (p *pass) compileQuietly(text string) (expr.Type, bool) {
	segments, err := expr.Split(text)
	if err != nil || len(segments) != 1 {
		return expr.String, err == nil
	}
	program, err := p.env.Compile(segments[0].Text)
	if err != nil {
		return expr.Any, false
	}
	return program.Type(), true
}
