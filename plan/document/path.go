package document

import (
	"slices"
	"strconv"
	"strings"
)

// Path leads to a value: strings are names of fields, ints are indices of lists.
type Path []any

// Key returns the path of a field below p.
func (p Path) Key(name string) Path { return append(slices.Clip(p), name) }

// Index returns the path of an item below p.
func (p Path) Index(i int) Path { return append(slices.Clip(p), i) }

// Last is the last name of the path.
func (p Path) Last() string {
	for _, e := range slices.Backward(p) {
		if name, ok := e.(string); ok {
			return name
		}
	}
	return ""
}

// String writes the path as steps[0].helm.chart.
func (p Path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch e := e.(type) {
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(e)
		case int:
			b.WriteString("[" + strconv.Itoa(e) + "]")
		}
	}
	return b.String()
}
