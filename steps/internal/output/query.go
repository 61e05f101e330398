package output

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kplan-dev/kplan/webhook/expression"
)

// path is a JSONPath template as kubectl -o jsonpath takes it.
type path struct {
	text   string
	single bool // it is one expression in braces, and no text
}

// newPath reads a path. As for kubectl the braces may be left out.
func newPath(text string) (*path, error) {
	if !strings.Contains(text, "{") {
		text = "{" + text + "}"
	}
	if err := jsonpath.New("output").Parse(text); err != nil {
		return nil, fmt.Errorf("jsonpath: %w", err)
	}
	return &path{text, strings.HasPrefix(text, "{") && strings.Index(text, "}") == len(text)-1}, nil
}

// String returns the path's text.
func (p *path) String() string { return p.text }

// find returns what one expression finds, with its type, if that is one value; else
// the text that kubectl prints.
func (p *path) find(object map[string]any) (any, error) {
	j := jsonpath.New("output").AllowMissingKeys(true) // one cannot be used by two at once
	if err := j.Parse(p.text); err != nil {
		return nil, err
	}
	results, err := j.FindResults(object)
	if err != nil {
		return nil, err
	}
	if p.single && len(results) == 1 && len(results[0]) <= 1 {
		if len(results[0]) == 0 || !results[0][0].IsValid() || !results[0][0].CanInterface() {
			return nil, nil
		}
		return results[0][0].Interface(), nil
	}
	var text bytes.Buffer
	for _, r := range results {
		if len(r) == 0 || slices.ContainsFunc(r, func(v reflect.Value) bool { return !v.IsValid() }) {
			return nil, nil
		}
		if err := j.PrintResults(&text, r); err != nil {
			return nil, err
		}
	}
	return text.String(), nil
}

// celQuery is a CEL expression over object.
type celQuery struct{ *expression.Expression }

func newCELQuery(text string) (celQuery, error) {
	e, err := expression.Compile(text, "object")
	if err != nil {
		return celQuery{}, fmt.Errorf("cel: %w", err)
	}
	return celQuery{e}, nil
}

func (q celQuery) find(object map[string]any) (any, error) {
	value, err := q.Eval(map[string]any{"object": object})
	if err != nil {
		return nil, err
	}
	return native(value)
}

// native returns a CEL value as JSON has it.
func native(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Double, types.String:
		return v.Value(), nil
	case types.Uint:
		return int64(v), nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			x, err := native(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	case traits.Mapper:
		m := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			name, ok := k.Value().(string)
			if !ok {
				return nil, errors.New("it gives a map whose keys are no text")
			}
			x, err := native(v.Get(k))
			if err != nil {
				return nil, err
			}
			m[name] = x
		}
		return m, nil
	}
	return nil, fmt.Errorf("it gives %s, which JSON does not have", v.Type().TypeName())
}

// fields finds the fields and indices of a plain path in a query's text.
var fields = regexp.MustCompile(`^\{?\$?(?:object)?((?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\]|\[['"][^'"]+['"]\])+)`)

var field = regexp.MustCompile(`\.([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]+)\]|\[['"]([^'"]+)['"]\]`)

// there says how far a query's path can be followed in an object, and what is at
// that place; "" when the query has no plain path. Of scalars it says nothing.
func there(object map[string]any, query string) string {
	path := fields.FindStringSubmatch(query)
	if path == nil {
		return ""
	}
	at, value := "", any(object)
	for _, m := range field.FindAllStringSubmatch(path[1], -1) {
		next, ok := any(nil), false
		switch v := value.(type) {
		case map[string]any:
			next, ok = v[m[1]+m[3]]
		case []any:
			var i int
			if _, err := fmt.Sscan(m[2], &i); err == nil && i < len(v) {
				next, ok = v[i], true
			}
		}
		if !ok {
			return has(at, value)
		}
		at, value = at+m[0], next
	}
	return ""
}

// has says what a value consists of.
func has(at string, value any) string {
	if at == "" {
		at = "the object"
	}
	const most = 12
	switch v := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return at + " is empty"
		}
		more := ""
		if len(keys) > most {
			more = fmt.Sprintf(" and %d more", len(keys)-most)
			keys = keys[:most]
		}
		return at + " has " + strings.Join(keys, ", ") + more
	case []any:
		if len(v) == 1 {
			return at + " has 1 item"
		}
		return fmt.Sprintf("%s has %d items", at, len(v))
	}
	return at + " has no fields"
}
