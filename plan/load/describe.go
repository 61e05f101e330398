package load

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
)

// wrongType reports that a value is not of the type that its field takes.
func (d decoder) wrongType(t reflect.Type, v any, at path) {
	if d.Full() {
		d.Skip(1)
		return
	}
	hint := ""
	_, isText := v.(string)
	n, _ := d.Source.Node(at)
	plain := n != nil && n.Kind == yamlv3.ScalarNode && n.Style == 0 && !strings.Contains(n.Value, "${{")
	switch {
	case enums[t] != nil:
		hint = "it takes " + document.OrList(enums[t])
	case t.Kind() == reflect.String && plain && v != nil:
		hint = "quote it to mean the text: " + strconv.Quote(document.Cut(n.Value, 60))
	case t.Kind() == reflect.Slice && (t.Elem().Kind() == reflect.String || t.Elem() == needType) && isText && plain:
		hint = "write a list: [" + document.Cut(n.Value, 60) + "]"
	case t.Kind() != reflect.String && isText && n != nil && n.Style != 0 && !strings.Contains(n.Value, "${{") && slices.Contains([]reflect.Kind{reflect.Int, reflect.Float64, reflect.Bool}, t.Kind()):
		hint = "write it without quotes"
	}
	if v == nil {
		d.ReportField(fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected %s, got nothing", expected(t))
		return
	}
	d.Report(fault{Code: document.CodeWrongType, At: at, Hint: hint}, "expected %s, got %s", expected(t), d.describeAt(v, at))
}

// describeAt is describe for the value at a path. A text that comes from a
// variable is not shown: it may be a secret.
func (c *pass) describeAt(v any, at path) string {
	if c.vars.Hides(at) {
		return "something else"
	}
	return c.Describe(v, at)
}

// quote is describeAt for a text of which only some are good.
func (c *pass) quote(s string, at path) string {
	if n, _ := c.Source.Node(at); n != nil && strings.Contains(n.Value, "${{") {
		return "the value of " + document.Cut(n.Value, 60)
	}
	return strconv.Quote(document.Cut(s, 60))
}

// expected says in words what a field of type t takes.
func expected(t reflect.Type) string {
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
		case t.Elem().Kind() == reflect.String, t.Elem() == needType:
			return "a list of strings"
		case t.Elem().Kind() == reflect.Interface:
			return "a list"
		}
		return "a list of mappings"
	default: // the other kinds that a plan's types have are structs and maps
		return "a mapping"
	}
}
