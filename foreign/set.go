package foreign

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// SetPath are the names of a --set of helm: a.b.c, in which \. is a dot. It is not ok for
// items of lists, which a plan cannot set alone.
func SetPath(name string) (path []string, ok bool) {
	var part strings.Builder
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '\\' && i+1 < len(name):
			i++
			part.WriteByte(name[i])
		case c == '[', c == ',', c == '=':
			return nil, false
		case c == '.':
			path = append(path, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	path = append(path, part.String())
	if slices.Contains(path, "") {
		return nil, false
	}
	return path, true
}

// Nest puts a value below the names of a path.
func Nest(path []string, n *yaml.Node) *yaml.Node {
	for _, p := range slices.Backward(path) {
		var m Fields
		m.Keep(p, n)
		n = m.Node()
	}
	return n
}

var wholeNumber = regexp.MustCompile(`^(0|-?[1-9]\d*)$`)

// Typed makes a text what helm --set reads it as: true, false, null and whole numbers are
// what they look like.
func Typed(n *yaml.Node) *yaml.Node {
	switch {
	case n.Value == "true", n.Value == "false":
		n.Tag, n.Style = "!!bool", 0
	case n.Value == "null":
		n.Tag, n.Style = "!!null", 0
	case wholeNumber.MatchString(n.Value):
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag, n.Style = "!!int", 0
		}
	}
	return n
}

// Assignment is one name=value of a --set.
type Assignment struct {
	Name, Value string
	// List are the items of {a,b}; nil for a text.
	List []string
}

// SplitSet splits what helm takes as one --set: a=b,c={d,e}, in which \ keeps the next
// character as it is. It is not ok without a name or =.
func SplitSet(text string) (all []Assignment, ok bool) {
	for _, part := range splitOutside(text, ',') {
		name, value, found := strings.Cut(part, "=")
		if !found || name == "" {
			return nil, false
		}
		a := Assignment{Name: name, Value: value}
		if inner, is := strings.CutPrefix(value, "{"); is && strings.HasSuffix(inner, "}") {
			a.List = []string{}
			if inner = strings.TrimSuffix(inner, "}"); inner != "" {
				for _, item := range splitOutside(inner, ',') {
					a.List = append(a.List, unescape(item))
				}
			}
		}
		a.Value = unescape(value)
		all = append(all, a)
	}
	return all, len(all) > 0
}

// splitOutside splits a text at a sign that stands in no braces and behind no \.
func splitOutside(text string, at byte) []string {
	var parts []string
	start, depth := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			depth--
		case at:
			if depth <= 0 {
				parts = append(parts, text[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

var escaped = regexp.MustCompile(`\\(.)`)

func unescape(s string) string { return escaped.ReplaceAllString(s, "$1") }
