// Package decode fills Go values from the values of a file, as document.Read returns
// them, and reports at its position what does not fit: fields that are unknown or
// missing, and values of a wrong type. Fields have the names of their json tags; one is
// required unless its tag says omitempty or omitzero.
//
// It knows neither what the types mean nor what their values may be beyond that.
package decode

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

	"github.com/kplan-dev/kplan/plan/document"
)

// Types says what the types that are decoded into take, beyond what Go says of them.
// Those of the kind int64 are durations.
type Types struct {
	// Enums are the values of fields of a type.
	Enums map[reflect.Type][]string
	// Short has the types that a file may give in a short form.
	Short map[reflect.Type]Short
	// Special decodes values of a type in its own way.
	Special map[reflect.Type]func(d *Decoder, dst reflect.Value, v any, at document.Path)
	// Aliases maps what other tools call a field to its name here.
	Aliases map[string]string
}

// Short is a form of a struct in which a file gives the value of one field alone.
type Short struct {
	// Field is the Go name of that field.
	Field string
	// Long reports whether a value is of the long form; nil is for mappings.
	Long func(v any) bool
}

func (s Short) long(v any) bool {
	if s.Long != nil {
		return s.Long(v)
	}
	_, is := v.(map[string]any)
	return is
}

// Decoder decodes the values of one file.
type Decoder struct {
	document.Reporter
	*Types
	// Near finds which name a mistyped one most likely means.
	Near interface {
		Hint(name string, candidates []string) string
	}
	// Unsaid reports whether nothing is to be said of a value, which is left out; nil is
	// for none.
	Unsaid func(v any) bool
	// Known returns a value that any takes without what is unsaid in it; it may be nil.
	Known func(v any) any
	// Hidden reports whether the value at a path must not be shown; it may be nil.
	Hidden func(at document.Path) bool
}

func (d *Decoder) unsaid(v any) bool { return d.Unsaid != nil && d.Unsaid(v) }

// structField is a field of a type as the file names it.
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

// Set decodes v, which stands at a path, into dst. What is wrong is reported and
// left zero: unknown fields, missing ones and wrong types.
func (d *Decoder) Set(dst reflect.Value, v any, at document.Path) {
	if d.unsaid(v) {
		return
	}
	t := dst.Type()
	switch {
	case d.Special[t] != nil:
		d.Special[t](d, dst, v, at)
	case d.Short[t].Field != "" && !d.Short[t].long(v):
		d.Set(dst.FieldByName(d.Short[t].Field), v, at)
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		d.Set(p.Elem(), v, at)
		dst.Set(p)
	case t.Kind() == reflect.Interface:
		if d.Known != nil {
			v = d.Known(v)
		}
		if v != nil {
			dst.Set(reflect.ValueOf(v))
		}
	case t.Kind() == reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			d.setStruct(dst, m, at)
		} else {
			d.WrongType(t, v, at)
		}
	case t.Kind() == reflect.Map:
		d.setMap(dst, v, at)
	case t.Kind() == reflect.Slice:
		d.setSlice(dst, v, at)
	default:
		d.setScalar(dst, v, at)
	}
}

func (d *Decoder) setStruct(dst reflect.Value, m map[string]any, at document.Path) {
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
			d.Set(dst.Field(f.index), v, at.Key(f.name))
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
			d.ReportField(document.Fault{Code: document.CodeUnknownField, At: at.Key(k), Hint: d.unknownHint(k, fields, dst.Type())}, "unknown field %q", k)
		}
	}
}

// plainOn finds the field on, which YAML 1.1 reads as true when it is not quoted. It
// is called on from then on.
func (d *Decoder) plainOn(m map[string]any, at document.Path) (v any, given bool) {
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

func (d *Decoder) missing(name string, given bool, at document.Path) {
	if given {
		d.ReportField(document.Fault{Code: document.CodeMissingField, At: at.Key(name)}, "the field %q is empty", name)
		return
	}
	d.ReportField(document.Fault{Code: document.CodeMissingField, At: at}, "the field %q is missing%s", name, in(at))
}

// in names the place of a fault in words that people use.
func in(at document.Path) string {
	if len(at) == 0 {
		return ""
	}
	return " in " + at.String()
}

// unknownHint says what the author of an unknown field may have meant.
func (d *Decoder) unknownHint(name string, fields []structField, t reflect.Type) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if near, ok := d.Aliases[name]; ok && slices.Contains(names, near) {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if hint := d.Near.Hint(name, names); hint != "" {
		return hint
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

func (d *Decoder) setMap(dst reflect.Value, v any, at document.Path) {
	m, ok := v.(map[string]any)
	if !ok {
		d.WrongType(dst.Type(), v, at)
		return
	}
	out := reflect.MakeMapWithSize(dst.Type(), len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if d.unsaid(m[k]) {
			continue
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		d.Set(elem, m[k], at.Key(k))
		out.SetMapIndex(reflect.ValueOf(k), elem)
	}
	dst.Set(out)
}

func (d *Decoder) setSlice(dst reflect.Value, v any, at document.Path) {
	list, ok := v.([]any)
	if !ok {
		d.WrongType(dst.Type(), v, at)
		return
	}
	out := reflect.MakeSlice(dst.Type(), len(list), len(list))
	for i, e := range list {
		d.Set(out.Index(i), e, at.Index(i))
	}
	dst.Set(out)
}

func (d *Decoder) setScalar(dst reflect.Value, v any, at document.Path) {
	switch t := dst.Type(); t.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if b, is := v.(bool); is && slices.Contains(d.Enums[t], strconv.FormatBool(b)) { // these need no quotes
			s, ok = strconv.FormatBool(b), true
		}
		if !ok {
			d.WrongType(t, v, at)
			return
		}
		if values := d.Enums[t]; values != nil && !slices.Contains(values, s) {
			hint := d.Near.Hint(s, values)
			d.Report(document.Fault{Code: document.CodeUnknownValue, At: at, Hint: hint}, "%s is %s, but takes %s only", at.Last(), d.Quote(s, at), document.OrList(values))
			return
		}
		dst.SetString(s)
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			dst.SetBool(b)
			return
		}
		d.WrongType(t, v, at)
	case reflect.Int:
		if i, ok := v.(int64); ok && i >= math.MinInt32 && i <= math.MaxInt32 {
			dst.SetInt(i)
			return
		}
		d.WrongType(t, v, at)
	case reflect.Float64:
		switch n := v.(type) {
		case int64:
			dst.SetFloat(float64(n))
		case float64:
			dst.SetFloat(n)
		default:
			d.WrongType(t, v, at)
		}
	case reflect.Int64: // there is none but durations
		d.setDuration(dst, v, at)
	default:
		panic("decode: a field has the type " + t.String() + ", which it does not know")
	}
}

func (d *Decoder) setDuration(dst reflect.Value, v any, at document.Path) {
	const units = "write a number with its unit, such as 90s, 10m or 1h30m"
	switch v := v.(type) {
	case int64:
		d.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: fmt.Sprintf("write %ds for seconds, or %dm for minutes", v, v)}, "expected a duration, got %s", d.DescribeAt(v, at))
	case string:
		got, err := time.ParseDuration(v)
		switch {
		case err != nil && strings.HasSuffix(v, "d"):
			d.Report(document.Fault{At: at, Hint: "the longest unit is the hour: write 24h for a day"}, "%s is not a duration", d.Quote(v, at))
		case err != nil:
			d.Report(document.Fault{At: at, Hint: units}, "%s is not a duration", d.Quote(v, at))
		case got <= 0:
			d.Report(document.Fault{At: at}, "the duration must be more than 0")
		default:
			dst.SetInt(int64(got))
		}
	default:
		d.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: units}, "expected a duration, got %s", d.DescribeAt(v, at))
	}
}
