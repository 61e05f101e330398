package load

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// checker finds the faults of one plan while it is decoded and afterwards.
type checker struct {
	document.Reporter
	// tree is the plan as decoded from YAML, with its expressions resolved.
	tree map[string]any
	plan *plan.Plan
	file
	// steps is the whole plan's graph; see graph.
	steps *plan.Graph
	// releases are the helm steps by release; see releaseOwners.
	releases map[string][]*plan.Step
	// vars are the plan's variables by name.
	vars map[string]*declaration
	// declared are the same, sorted by name.
	declared []*declaration
}

// enums are the values that fields of these types take.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[plan.WaitFor]():   {string(plan.WaitNone), string(plan.WaitHooks), string(plan.WaitReady)},
	reflect.TypeFor[plan.OnFailure](): {string(plan.KeepRelease), string(plan.RollbackRelease), string(plan.UninstallRelease)},
	reflect.TypeFor[plan.NeedOn]():    {string(plan.NeedSuccess), string(plan.NeedFailure), string(plan.NeedAlways)},
	reflect.TypeFor[plan.VarType](): {
		string(plan.VarString), string(plan.VarNumber), string(plan.VarInteger), string(plan.VarBoolean), string(plan.VarList), string(plan.VarMap), string(plan.VarAny),
	},
	reflect.TypeFor[plan.RetryOn](): {
		string(plan.RetryWebhook), string(plan.RetryNetwork), string(plan.RetryConflict), string(plan.RetryTimeout), string(plan.RetryNotReady), string(plan.RetryAny),
	},
}

var (
	durationType = reflect.TypeFor[plan.Duration]()
	needType     = reflect.TypeFor[plan.Need]()
	forEachType  = reflect.TypeFor[plan.ForEach]()
)

// isMapping tells the long form of a value that can be a text.
func isMapping(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// isLongForEach tells a mapping of in and parallel from the items themselves: its
// in is a list, or there is nothing else.
func isLongForEach(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || m["in"] == nil {
		return false
	}
	if _, isList := m["in"].([]any); isList {
		return true
	}
	for k := range m {
		if k != "in" && k != "parallel" {
			return false
		}
	}
	return true
}

// structField is a field of a plan type as the file names it.
type structField struct {
	name     string
	index    int
	required bool
}

// structFields gives the fields that a mapping of type t has, in the order of
// their declaration. A field is required unless its tag says omitempty or
// omitzero.
func structFields(t reflect.Type) []structField {
	if known, ok := fieldCache.Load(t); ok {
		return known.([]structField)
	}
	var fields []structField
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "-" && name != "" {
			fields = append(fields, structField{name, i, !strings.Contains(opts, "omit")})
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

// fieldCache holds the []structField of each reflect.Type.
var fieldCache sync.Map

// decode fills the plan from its tree and reports every unknown field, missing
// field and wrong type.
func (c *checker) decode(root map[string]any) {
	c.set(reflect.ValueOf(c.plan).Elem(), root, nil)
}

// set decodes v, which stands at a path, into dst. What is wrong is reported and
// left zero.
func (c *checker) set(dst reflect.Value, v any, at document.Path) {
	if isUnsaid(v) {
		return
	}
	t := dst.Type()
	switch {
	case t == stepsType: // read by declareSteps
		if _, ok := v.([]any); !ok {
			c.wrongType(t, v, at)
		}
	case t == durationType:
		c.setDuration(dst, v, at)
	case t == needType && !isMapping(v):
		c.set(dst.FieldByName("Step"), v, at)
	case t == forEachType && !isLongForEach(v):
		c.set(dst.FieldByName("In"), v, at)
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		c.set(p.Elem(), v, at)
		dst.Set(p)
	case t.Kind() == reflect.Interface:
		if v = withoutLate(v); v != nil {
			dst.Set(reflect.ValueOf(v))
		}
	case t.Kind() == reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			c.setStruct(dst, m, at)
		} else {
			c.wrongType(t, v, at)
		}
	case t.Kind() == reflect.Map:
		c.setMap(dst, v, at)
	case t.Kind() == reflect.Slice:
		c.setSlice(dst, v, at)
	default:
		c.setScalar(dst, v, at)
	}
}

func (c *checker) setStruct(dst reflect.Value, m map[string]any, at document.Path) {
	fields := structFields(dst.Type())
	known := 0
	for _, f := range fields {
		v, given := m[f.name]
		if !given && f.name == "on" {
			v, given = c.plainOn(m, at)
		}
		if given {
			known++
		}
		switch {
		case f.required && (!given || v == nil):
			c.missing(f.name, given, at)
		case !given, v == nil && dst.Field(f.index).Type().Kind() != reflect.Pointer:
			// An empty field says the same as none, but an empty "helm:" does not.
		default:
			c.set(dst.Field(f.index), v, at.Key(f.name))
		}
	}
	if known == len(m) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if c.Full() {
			c.Skip(len(m) - known)
			return
		}
		if !slices.ContainsFunc(fields, func(f structField) bool { return f.name == k }) {
			c.ReportField(document.Fault{Code: document.CodeUnknownField, At: at.Key(k), Hint: c.unknownHint(k, fields, dst.Type())}, "unknown field %q", k)
		}
	}
}

// plainOn finds the field on, which YAML 1.1 reads as true when it is not quoted. It
// is called on from then on.
func (c *checker) plainOn(m map[string]any, at document.Path) (v any, given bool) {
	if v, given = m["true"]; !given {
		return nil, false
	}
	if _, key := c.Source.Node(at.Key("true")); key != nil && !strings.EqualFold(key.Value, "on") {
		return nil, false
	}
	delete(m, "true")
	m["on"] = v
	return v, true
}

func (c *checker) missing(name string, given bool, at document.Path) {
	if given {
		c.ReportField(document.Fault{Code: document.CodeMissingField, At: at.Key(name)}, "the field %q is empty", name)
		return
	}
	c.ReportField(document.Fault{Code: document.CodeMissingField, At: at}, "the field %q is missing%s", name, in(at))
}

// in names the place of a fault in words that people use.
func in(at document.Path) string {
	if len(at) == 0 {
		return ""
	}
	return " in " + at.String()
}

// unknownHint says what the author of an unknown field may have meant.
func (c *checker) unknownHint(name string, fields []structField, t reflect.Type) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if hint := c.near.Hint(name, names); hint != "" {
		return hint
	}
	if near, ok := otherTools[name]; ok && slices.Contains(names, near) {
		return fmt.Sprintf("did you mean %q?", near)
	}
	for _, f := range fields {
		inner := t.Field(f.index).Type
		if inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct &&
			slices.ContainsFunc(structFields(inner.Elem()), func(x structField) bool { return x.name == name }) {
			return fmt.Sprintf("%q belongs under %q", name, f.name)
		}
	}
	return "known here: " + strings.Join(names, ", ")
}

// otherTools maps what other tools call a field to its name here.
var otherTools = map[string]string{
	"depends_on": "needs", "dependsOn": "needs", "dependencies": "needs", "after": "needs",
	"retries": "install_retries", "attempts": "install_retries", "delay": "retry_delay_seconds",
	"valueFiles": "values_files", "values_file": "values_files", "set": "values",
	"variables": "vars", "manifests": "files", "condition": "for", "labels": "selector",
}

func (c *checker) setMap(dst reflect.Value, v any, at document.Path) {
	m, ok := v.(map[string]any)
	if !ok {
		c.wrongType(dst.Type(), v, at)
		return
	}
	out := reflect.MakeMapWithSize(dst.Type(), len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if isUnsaid(m[k]) {
			continue
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		c.set(elem, m[k], at.Key(k))
		out.SetMapIndex(reflect.ValueOf(k), elem)
	}
	dst.Set(out)
}

// withoutLate gives a value without what is known only when the step starts: the
// value itself when there is no such thing in it.
func withoutLate(v any) any {
	if !hasLate(v) {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			if !isUnsaid(e) {
				m[k] = withoutLate(e)
			}
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = withoutLate(e)
		}
		return l
	}
	return nil
}

func hasLate(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if hasLate(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasLate)
	}
	return isUnsaid(v)
}

func (c *checker) setSlice(dst reflect.Value, v any, at document.Path) {
	list, ok := v.([]any)
	if !ok {
		c.wrongType(dst.Type(), v, at)
		return
	}
	out := reflect.MakeSlice(dst.Type(), len(list), len(list))
	for i, e := range list {
		c.set(out.Index(i), e, at.Index(i))
	}
	dst.Set(out)
}

func (c *checker) setScalar(dst reflect.Value, v any, at document.Path) {
	switch t := dst.Type(); t.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			c.wrongType(t, v, at)
			return
		}
		if values := enums[t]; values != nil && !slices.Contains(values, s) {
			hint := c.near.Hint(s, values)
			c.Report(document.Fault{Code: document.CodeUnknownValue, At: at, Hint: hint}, "%s is %s, but takes %s only", at.Last(), c.quote(s, at), document.OrList(values))
			return
		}
		dst.SetString(s)
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			dst.SetBool(b)
			return
		}
		c.wrongType(t, v, at)
	case reflect.Int:
		if i, ok := v.(int64); ok && i >= math.MinInt32 && i <= math.MaxInt32 {
			dst.SetInt(i)
			return
		}
		c.wrongType(t, v, at)
	case reflect.Float64:
		switch n := v.(type) {
		case int64:
			dst.SetFloat(float64(n))
		case float64:
			dst.SetFloat(n)
		default:
			c.wrongType(t, v, at)
		}
	default:
		panic("plan: a field has the type " + t.String() + ", which decode does not know")
	}
}

func (c *checker) setDuration(dst reflect.Value, v any, at document.Path) {
	const units = "write a number with its unit, such as 90s, 10m or 1h30m"
	switch v := v.(type) {
	case int64:
		c.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: fmt.Sprintf("write %ds for seconds, or %dm for minutes", v, v)}, "expected a duration, got %s", c.describeAt(v, at))
	case string:
		d, err := time.ParseDuration(v)
		switch {
		case err != nil && strings.HasSuffix(v, "d"):
			c.Report(document.Fault{At: at, Hint: "the longest unit is the hour: write 24h for a day"}, "%s is not a duration", c.quote(v, at))
		case err != nil:
			c.Report(document.Fault{At: at, Hint: units}, "%s is not a duration", c.quote(v, at))
		case d <= 0:
			c.Report(document.Fault{At: at}, "the duration must be more than 0")
		default:
			dst.SetInt(int64(d))
		}
	default:
		c.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: units}, "expected a duration, got %s", c.describeAt(v, at))
	}
}
