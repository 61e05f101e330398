package load

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// decoder fills a plan, or a part of one, from the values of a file.
type decoder struct{ *pass }

// enums are the values that fields of these types take.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[plan.WaitFor]():     {string(plan.WaitNone), string(plan.WaitHooks), string(plan.WaitReady)},
	reflect.TypeFor[plan.OnImmutable](): {string(plan.FailImmutable), string(plan.RecreateImmutable)},
	reflect.TypeFor[plan.OnFailure]():   {string(plan.KeepRelease), string(plan.RollbackRelease), string(plan.UninstallRelease)},
	reflect.TypeFor[plan.CRDPolicy]():   {string(plan.SkipCRDs), string(plan.CreateCRDs), string(plan.UpgradeCRDs)},
	reflect.TypeFor[plan.Drift]():       {string(plan.CorrectDrift), string(plan.ReportDrift), string(plan.IgnoreDrift)},
	reflect.TypeFor[plan.HelmEngine]():  {string(plan.Helm3), string(plan.Helm4)},
	serverSideType:                      {string(plan.ServerSideAuto), string(plan.ServerSideTrue), string(plan.ServerSideFalse)},
	reflect.TypeFor[plan.NeedOn]():      {string(plan.NeedSuccess), string(plan.NeedFailure), string(plan.NeedAlways)},
	reflect.TypeFor[plan.VarType](): {
		string(plan.VarString), string(plan.VarNumber), string(plan.VarInteger), string(plan.VarBoolean), string(plan.VarList), string(plan.VarMap), string(plan.VarAny),
	},
	reflect.TypeFor[plan.RetryOn](): {
		string(plan.RetryWebhook), string(plan.RetryNetwork), string(plan.RetryConflict), string(plan.RetryTimeout), string(plan.RetryNotReady), string(plan.RetryAny),
	},
}

var (
	durationType   = reflect.TypeFor[plan.Duration]()
	needType       = reflect.TypeFor[plan.Need]()
	forEachType    = reflect.TypeFor[plan.ForEach]()
	serverSideType = reflect.TypeFor[plan.ServerSide]()
	readyType      = reflect.TypeFor[plan.Readiness]()
)

// isMapping reports whether a value is the long form of one that can be a text.
func isMapping(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// isLongForEach reports whether v is a mapping of in and parallel rather than the items
// themselves: its
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

// structFields returns the fields that a mapping of type t has, in the order of
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

// set decodes v, which stands at a path, into dst. What is wrong is reported and
// left zero: unknown fields, missing ones and wrong types.
func (d decoder) set(dst reflect.Value, v any, at path) {
	if value.IsUnsaid(v) {
		return
	}
	t := dst.Type()
	switch {
	case t == stepsType: // read by declareSteps
		if _, ok := v.([]any); !ok {
			d.wrongType(t, v, at)
		}
	case t == durationType:
		d.setDuration(dst, v, at)
	case t == needType && !isMapping(v):
		d.set(dst.FieldByName("Step"), v, at)
	case t == readyType && !isMapping(v):
		d.set(dst.FieldByName("Ready"), v, at)
	case t == forEachType && !isLongForEach(v):
		d.set(dst.FieldByName("In"), v, at)
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		d.set(p.Elem(), v, at)
		dst.Set(p)
	case t.Kind() == reflect.Interface:
		if v = value.Known(v); v != nil {
			dst.Set(reflect.ValueOf(v))
		}
	case t.Kind() == reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			d.setStruct(dst, m, at)
		} else {
			d.wrongType(t, v, at)
		}
	case t.Kind() == reflect.Map:
		d.setMap(dst, v, at)
	case t.Kind() == reflect.Slice:
		d.setSlice(dst, v, at)
	default:
		d.setScalar(dst, v, at)
	}
}

func (d decoder) setStruct(dst reflect.Value, m map[string]any, at path) {
	fields := structFields(dst.Type())
	known := 0
	for _, f := range fields {
		v, given := m[f.name]
		if !given && f.name == "on" {
			v, given = d.plainOn(m, at)
		}
		if given {
			known++
		}
		switch {
		case f.required && (!given || v == nil):
			d.missing(f.name, given, at)
		case !given, v == nil && dst.Field(f.index).Type().Kind() != reflect.Pointer:
			// An empty field says the same as none, but an empty "helm:" does not.
		default:
			d.set(dst.Field(f.index), v, at.Key(f.name))
		}
	}
	if known == len(m) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if d.Full() {
			d.Skip(len(m) - known)
			return
		}
		if !slices.ContainsFunc(fields, func(f structField) bool { return f.name == k }) {
			d.ReportField(fault{Code: document.CodeUnknownField, At: at.Key(k), Hint: d.unknownHint(k, fields, dst.Type())}, "unknown field %q", k)
		}
	}
}

// plainOn finds the field on, which YAML 1.1 reads as true when it is not quoted. It
// is called on from then on.
func (d decoder) plainOn(m map[string]any, at path) (v any, given bool) {
	if v, given = m["true"]; !given {
		return nil, false
	}
	if _, key := d.Source.Node(at.Key("true")); key != nil && !strings.EqualFold(key.Value, "on") {
		return nil, false
	}
	delete(m, "true")
	m["on"] = v
	return v, true
}

func (d decoder) missing(name string, given bool, at path) {
	if given {
		d.ReportField(fault{Code: document.CodeMissingField, At: at.Key(name)}, "the field %q is empty", name)
		return
	}
	d.ReportField(fault{Code: document.CodeMissingField, At: at}, "the field %q is missing%s", name, in(at))
}

// in names the place of a fault in words that people use.
func in(at path) string {
	if len(at) == 0 {
		return ""
	}
	return " in " + at.String()
}

// unknownHint says what the author of an unknown field may have meant.
func (d decoder) unknownHint(name string, fields []structField, t reflect.Type) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if hint := d.near.Hint(name, names); hint != "" {
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

func (d decoder) setMap(dst reflect.Value, v any, at path) {
	m, ok := v.(map[string]any)
	if !ok {
		d.wrongType(dst.Type(), v, at)
		return
	}
	out := reflect.MakeMapWithSize(dst.Type(), len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if value.IsUnsaid(m[k]) {
			continue
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		d.set(elem, m[k], at.Key(k))
		out.SetMapIndex(reflect.ValueOf(k), elem)
	}
	dst.Set(out)
}

func (d decoder) setSlice(dst reflect.Value, v any, at path) {
	list, ok := v.([]any)
	if !ok {
		d.wrongType(dst.Type(), v, at)
		return
	}
	out := reflect.MakeSlice(dst.Type(), len(list), len(list))
	for i, e := range list {
		d.set(out.Index(i), e, at.Index(i))
	}
	dst.Set(out)
}

func (d decoder) setScalar(dst reflect.Value, v any, at path) {
	switch t := dst.Type(); t.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if b, is := v.(bool); is && t == serverSideType { // true and false need no quotes
			s, ok = strconv.FormatBool(b), true
		}
		if !ok {
			d.wrongType(t, v, at)
			return
		}
		if values := enums[t]; values != nil && !slices.Contains(values, s) {
			hint := d.near.Hint(s, values)
			d.Report(fault{Code: document.CodeUnknownValue, At: at, Hint: hint}, "%s is %s, but takes %s only", at.Last(), d.quote(s, at), document.OrList(values))
			return
		}
		dst.SetString(s)
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			dst.SetBool(b)
			return
		}
		d.wrongType(t, v, at)
	case reflect.Int:
		if i, ok := v.(int64); ok && i >= math.MinInt32 && i <= math.MaxInt32 {
			dst.SetInt(i)
			return
		}
		d.wrongType(t, v, at)
	case reflect.Float64:
		switch n := v.(type) {
		case int64:
			dst.SetFloat(float64(n))
		case float64:
			dst.SetFloat(n)
		default:
			d.wrongType(t, v, at)
		}
	default:
		panic("plan: a field has the type " + t.String() + ", which decode does not know")
	}
}

func (d decoder) setDuration(dst reflect.Value, v any, at path) {
	const units = "write a number with its unit, such as 90s, 10m or 1h30m"
	switch v := v.(type) {
	case int64:
		d.Report(fault{Code: document.CodeWrongType, At: at, Hint: fmt.Sprintf("write %ds for seconds, or %dm for minutes", v, v)}, "expected a duration, got %s", d.describeAt(v, at))
	case string:
		got, err := time.ParseDuration(v)
		switch {
		case err != nil && strings.HasSuffix(v, "d"):
			d.Report(fault{At: at, Hint: "the longest unit is the hour: write 24h for a day"}, "%s is not a duration", d.quote(v, at))
		case err != nil:
			d.Report(fault{At: at, Hint: units}, "%s is not a duration", d.quote(v, at))
		case got <= 0:
			d.Report(fault{At: at}, "the duration must be more than 0")
		default:
			dst.SetInt(int64(got))
		}
	default:
		d.Report(fault{Code: document.CodeWrongType, At: at, Hint: units}, "expected a duration, got %s", d.describeAt(v, at))
	}
}
