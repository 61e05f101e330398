package document

import (
	"bytes"
	"regexp"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/redact"
)

// mayHide finds the declaration of a sensitive variable in a file that is not YAML.
var mayHide = regexp.MustCompile(`\bsensitive["']?\s*:`)

// open reports whether the words of a file that cannot be understood may be shown:
// nobody knows where a secret stands in it.
func (s *Source) open() bool { return !s.Private && !mayHide.Match(s.src) }

// Hide keeps the value at a path out of all lines that are shown from then on. No line
// may have been shown before.
func (s *Source) Hide(at Path) { s.hidden = append(s.hidden, at) }

// redacted returns the line of a position, without its end, and the byte of it that
// the position is at. Secrets are left out: where they stand as values of
// sensitive variables, however these are quoted and folded, and where the same
// text stands elsewhere.
func (s *Source) redacted(p Pos) (line []byte, at int) {
	start := s.starts[p.Line-1]
	line = trimBreak(s.line(p.Line))
	at = min(s.offsetOf(p)-start, len(line))
	for _, x := range s.extents() {
		from, to := max(x[0]-start, 0), min(x[1]-start, len(line))
		if from >= to {
			continue
		}
		line = slices.Concat(line[:from], []byte(redact.Mark), line[to:])
		if at >= to {
			at += len(redact.Mark) - (to - from)
		} else {
			at = min(at, from)
		}
	}
	clean := s.secrets.Text(string(line))
	if clean == string(line) {
		return line, at
	}
	before := s.secrets.Text(string(line[:at]))
	for at = 0; at < min(len(before), len(clean)) && before[at] == clean[at]; {
		at++
	}
	return []byte(clean), at
}

// findHidden returns the extents of all hidden values.
func (s *Source) findHidden() [][2]int {
	var found [][2]int
	for _, at := range s.hidden {
		from, to := s.extent(at)
		found = append(found, [2]int{from, to})
	}
	slices.SortFunc(found, func(a, b [2]int) int { return b[0] - a[0] })
	return found
}

// extent returns from where to where the value at a path stands in the file: at most
// up to the next key or item, whichever mapping or list that is of. It is empty
// when there is no such value.
func (s *Source) extent(at Path) (from, to int) {
	value, key := s.Node(at)
	if value == nil || key == nil || key.Value != at[len(at)-1] {
		return 0, 0
	}
	from, to = s.Offset(value), len(s.src)
	for depth := len(at); depth > 0; depth-- {
		child, _ := s.Node(at[:depth])
		parent, _ := s.Node(at[:depth-1])
		if parent == nil || parent.Kind == yamlv3.AliasNode {
			break
		}
		if next := after(parent, child); next != nil {
			to = s.Offset(next)
			break
		}
	}
	if to < from { // the value stands elsewhere, behind an alias
		return 0, 0
	}
	text := trimEnd(s.src[from:to])
	for (bytes.HasSuffix(text, []byte("}")) || bytes.HasSuffix(text, []byte("]"))) && (value.Kind == yamlv3.ScalarNode || unclosed(text) < 0) {
		text = trimEnd(text[:len(text)-1]) // of what the value stands in
	}
	return from, from + len(text)
}

// trimEnd cuts off what stands between a value and the next one.
func trimEnd(text []byte) []byte { return bytes.TrimRight(text, " \t\r\n,") }

// unclosed counts the brackets that are not closed in text.
func unclosed(text []byte) (n int) {
	for _, c := range text {
		switch c {
		case '[', '{':
			n++
		case ']', '}':
			n--
		}
	}
	return n
}

// after returns what stands behind a child of n; nil when the child is the last.
func after(n, child *yamlv3.Node) *yamlv3.Node {
	for i, c := range n.Content {
		if c == child && i+1 < len(n.Content) {
			return n.Content[i+1]
		}
	}
	return nil
}
