package document

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// DescribeType says in words what kind of value v is.
func DescribeType(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case int64, float64, json.Number:
		return "a number"
	}
	return Describe(v)
}

// Describe says in words what a value is.
func Describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return "the text " + strconv.Quote(Cut(v, 40))
	case bool:
		return strconv.FormatBool(v)
	case int64, float64, json.Number:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "another value"
}

// OrList returns the values with commas and a final "or".
func OrList(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}
