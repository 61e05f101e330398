package expr

import (
	"slices"
	"strconv"
	"strings"
)

// part is one piece of a chain of names: .name, [0] or ["name"].
type part struct {
	name string
	// index is that of a list; -1 for a name.
	index int
	// bracket tells ["name"] from .name.
	bracket bool
	// at and end are where the name, or the bracket, stands in the text.
	at, end int
}

// chain reads a chain of names that starts at an offset: a name, then .name, [0]
// and ["name"] as far as they go. A name with dashes is taken as a whole when it
// is known; when only a shorter one is, the dash is a minus.
func (e *Env) chain(text string, at int) (parts []part, end int) {
	end = wordEnd(text, at)
	parts = []part{{name: text[at:end], index: -1, at: at, end: end}}
	for end < len(text) {
		p, ok := e.link(text, end, parts)
		if !ok {
			break
		}
		parts = append(parts, p)
		end = p.end
	}
	return parts, end
}

// wordEnd returns where the word ends that may start at an offset.
func wordEnd(text string, at int) int {
	for at < len(text) && isWord(text[at]) {
		at++
	}
	return at
}

// link reads one more piece of a chain.
func (e *Env) link(text string, at int, parts []part) (part, bool) {
	switch text[at] {
	case '.':
		start := at + 1
		end := wordEnd(text, start)
		if end == start || text[start] >= '0' && text[start] <= '9' {
			return part{}, false
		}
		if end+1 < len(text) && text[end] == '-' && isWord(text[end+1]) {
			end = e.dashed(text, start, end, parts)
		}
		return part{name: text[start:end], index: -1, at: start, end: end}, true
	case '[':
		length := strings.IndexByte(text[at:], ']')
		if length < 0 {
			return part{}, false
		}
		inner := strings.Trim(text[at+1:at+length], blanks)
		p := part{name: inner, index: -1, bracket: true, at: at, end: at + length + 1}
		if n := len(inner); n >= 2 && (inner[0] == '"' || inner[0] == '\'') {
			p.name = inner[1 : n-1]
			return p, inner[n-1] == inner[0] && !strings.ContainsAny(p.name, "\"'\\")
		}
		index, err := strconv.ParseUint(inner, 10, 32)
		p.index = int(index)
		return p, err == nil && len(inner) <= 6
	}
	return part{}, false
}

// dashed returns the end of a name that starts at start, has no dash up to end and
// goes on with one. The longest name that is known counts. When none is, one that
// should be a field of an object is taken as a whole, for its fault is that there
// is none.
func (e *Env) dashed(text string, start, end int, parts []part) int {
	full := end
	for full < len(text) && (isWord(text[full]) || text[full] == '-') {
		full++
	}
	full = start + len(strings.TrimRight(text[start:full], "-"))
	t, known := e.typeOf(parts)
	has := func(name string) bool { return e.has(append(names(parts), name)) }
	if known && t.isObject() {
		has = func(name string) bool {
			f, ok := t.object.field(name)
			// Nothing can be taken from an object, so its dash is no minus.
			return ok && (f.object == nil || start+len(name) == full)
		}
	}
	for cut := full; ; {
		if has(text[start:cut]) {
			return cut
		}
		dash := strings.LastIndexByte(text[start:cut], '-')
		if dash < 0 {
			break
		}
		cut = start + len(strings.TrimRight(text[start:start+dash], "-"))
	}
	if known && t.isObject() {
		return full
	}
	return end
}

// names returns the chain as a path.
func names(parts []part) []string {
	path := make([]string, len(parts), len(parts)+1)
	for i, p := range parts {
		path[i] = p.name
	}
	return path
}

// typeOf returns the type of a chain as far as objects and their maps lead; it is
// not known for a chain with a fault, or one that goes below Any.
func (e *Env) typeOf(parts []part) (Type, bool) {
	t := e.root.typ
	for _, p := range parts {
		next, ok := t.below(p)
		if !ok {
			return Type{}, false
		}
		t = next
	}
	return t, true
}

// words are what CEL does not take as a name after a dot.
var words = []string{"in", "true", "false", "null"}

// escape writes the names of an expression so that CEL takes them: those with
// dashes, and those that are words of its own, in backticks. Moved says where.
func (e *Env) escape(text string) (source string, moved offsets) {
	var b strings.Builder
	last := 0
	for at := 0; at < len(text); {
		if !isWord(text[at]) {
			next, ok := skip(text, at)
			if !ok {
				break
			}
			at = next
			continue
		}
		parts, end := e.chain(text, at)
		if text[at] <= '9' || at > 0 && text[at-1] == '.' {
			parts = nil // a number, or a field of something that is not a name
		}
		for _, p := range parts[min(1, len(parts)):] {
			if p.bracket || !strings.Contains(p.name, "-") && !slices.Contains(words, p.name) {
				continue
			}
			b.WriteString(text[last:p.at] + "`" + p.name + "`")
			moved = append(moved, p.at, p.end)
			last = p.end
		}
		at = end
	}
	b.WriteString(text[last:])
	return b.String(), moved
}

// offsets are where in a text a character was put in.
type offsets []int

// back returns the offset in the text of an offset in what it became.
func (o offsets) back(at int) int {
	for i, was := range o {
		if at <= was+i {
			return at - i
		}
	}
	return at - len(o)
}
