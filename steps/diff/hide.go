package diff

import (
	"fmt"
	"strings"
)

// hidden stands for a value that must not be shown.
const hidden = "(sensitive)"

// Hide takes away what there was before wherever something comes that hide changes: a
// sensitive variable had another value then, which nobody knows to be one.
func (s *Step) Hide(hide func(string) string) {
	if s.Release != nil {
		hideFields(s.Release.Values, hide)
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		hideFields(o.Fields, hide)
		if o.Before != "" {
			o.Before = hideBefore(o.Before, o.After, hide)
		}
	}
}

func hideFields(all []Field, hide func(string) string) {
	for i, f := range all {
		if text := fmt.Sprint(f.After); f.Before != nil && hide(text) != text {
			all[i].Before = hidden
		}
	}
}

// hideBefore hides in a YAML text the values of keys that are sensitive in another. Where
// such a value has no line with a key of its own, the whole text is that one.
func hideBefore(before, after string, hide func(string) string) string {
	keys := map[string]bool{}
	for line := range strings.Lines(after) {
		if hide(line) == line {
			continue
		}
		key, _, found := strings.Cut(line, ": ")
		if !found {
			return after
		}
		keys[key] = true
	}
	if hide(after) != after && len(keys) == 0 { // it has several lines
		return after
	}
	var out strings.Builder
	for line := range strings.Lines(before) {
		if key, _, _ := strings.Cut(line, ": "); keys[key] {
			line = key + ": " + hidden + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}
