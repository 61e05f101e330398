package decode

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
)

// WrongType reports that a value is not of the type that its field takes.
func (d *Decoder) WrongType(t reflect.Type, v any, at document.Path) {
	if d.Full() {
		d.Skip(1)
		return
	}
	hint := ""
	_, isText := v.(string)
	n, _ := d.Source.Node(at)
	plain := n != nil && n.Kind == yamlv3.ScalarNode && n.Style == 0 && !strings.Contains(n.Value, "${{")
	switch {
	case d.Enums[t] != nil:
		hint = "it takes " + document.OrList(d.Enums[t])
	case t.Kind() == reflect.String && plain && v != nil:
		hint = "quote it to mean the text: " + strconv.Quote(document.Cut(n.Value, 60))
	case t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.String || d.Short[t.Elem()].Field != "") && isText && plain:
		hint = "write a list: [" + document.Cut(n.Value, 60) + "]"
	case t.Kind() != reflect.String && isText && n != nil && n.Style != 0 && !strings.Contains(n.Value, "${{") && slices.Contains([]reflect.Kind{reflect.Int, reflect.Float64, reflect.Bool}, t.Kind()):
		hint = "write it without quotes"
	}
	if v == nil {
		d.ReportField(document.Fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected %s, got nothing", d.expected(t))
		return
	}
	d.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected %s, got %s", d.expected(t), d.DescribeAt(v, at))
}

// DescribeAt is Describe for the value at a path. A text that comes from a
// variable is not shown: it may be a secret.
func (d *Decoder) DescribeAt(v any, at document.Path) string {
	if d.Hidden != nil && d.Hidden(at) {
		return "something else"
	}
	return d.Describe(v, at)
}

// Quote is DescribeAt for a text of which only some are good.
func (d *Decoder) Quote(s string, at document.Path) string {
	if n, _ := d.Source.Node(at); n != nil && strings.Contains(n.Value, "${{") {
		return "the value of " + document.Cut(n.Value, 60)
	}
	return strconv.Quote(document.Cut(s, 60))
}

// expected says in words what a field of type t takes.
func (d *Decoder) expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		switch {
		case t.Elem().Kind() == reflect.String, d.Short[t.Elem()].Field != "":
			return "a list of strings"
		case t.Elem().Kind() == reflect.Interface:
			return "a list"
		}
		return "a list of mappings"
	default: // the other kinds are structs and maps
		return "a mapping"
	}
}
