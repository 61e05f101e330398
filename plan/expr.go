package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// maxText bounds the text that expressions make, in bytes.
const maxText = 8 << 20

// invalid stands for a value whose fault is reported already, so that nothing
// more is said about it.
type invalid struct{}

// expander puts the values of variables in place of ${{ … }}. What it puts in
// is not looked at again: a value that has ${{ in it stays as it is.
type expander struct {
	*checker
	vars map[string]any
	// nodes and text count what was put in, to bound it.
	nodes, text int
	tooLarge    bool
	// literal is set where only $${{ is understood: in the defaults of variables.
	literal bool
}

// expand gives v with all expressions resolved.
func (x *expander) expand(v any, at path) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if strings.Contains(strings.ReplaceAll(k, "$${{", ""), "${{") {
				x.addKey(at.key(k), "use expressions in values only", "the name of a field cannot have an expression")
				continue
			}
			v[k] = x.expand(v[k], at.key(k))
		}
	case []any:
		for i := range v {
			v[i] = x.expand(v[i], at.index(i))
		}
	case string:
		if strings.Contains(v, "${{") {
			return x.expandText(v, at)
		}
	}
	return v
}

// expandText resolves the expressions of one text. A text that is nothing but
// one expression takes the value with its type, any other one takes scalars
// only. $${{ stands for ${{ itself.
func (x *expander) expandText(text string, at path) any {
	var b strings.Builder
	bad := false
	rest, nth := text, 0
	for {
		i := strings.Index(rest, "${{")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		if i > 0 && rest[i-1] == '$' {
			b.WriteString(rest[:i-1] + "${{")
			rest = rest[i+3:]
			nth++
			continue
		}
		b.WriteString(rest[:i])
		end := strings.Index(rest[i:], "}}")
		if end < 0 {
			x.addExpr(at, nth, "to mean the text ${{ itself, write $${{", "the expression is not closed: }} is missing")
			return invalid{}
		}
		val, ok := x.eval(strings.TrimSpace(rest[i+3:i+end]), at, nth)
		nth++
		rest = rest[i+end+2:]
		switch {
		case !ok:
			bad = true
		case i == 0 && rest == "" && b.Len() == 0 && nth == 1:
			return x.insert(val, at)
		default:
			bad = !x.writeScalar(&b, val, at, nth-1) || bad
		}
	}
	x.text += b.Len()
	if bad || !x.fits(at) {
		return invalid{}
	}
	return b.String()
}

// insert copies a value into the plan, so that no two places share one.
func (x *expander) insert(v any, at path) any {
	if x.tooLarge {
		return invalid{}
	}
	size := 0
	v = deepCopy(v, &size)
	x.nodes += size
	if !x.fits(at) {
		return invalid{}
	}
	return v
}

func (x *expander) fits(at path) bool {
	if x.nodes <= maxNodes && x.text <= maxText {
		return true
	}
	if !x.tooLarge { // said once, and nothing is put in any more
		x.tooLarge = true
		x.addValue(at, "use smaller variables, or fewer of them", "the variables make the plan too large: more than %d values or %d bytes of text", maxNodes, maxText)
	}
	return false
}

func (x *expander) writeScalar(b *strings.Builder, v any, at path, nth int) bool {
	if x.tooLarge {
		return false
	}
	if s, ok := v.(string); ok && x.text+b.Len()+len(s) > maxText {
		x.text += b.Len() + len(s)
		return x.fits(at)
	}
	switch v := v.(type) {
	case string:
		b.WriteString(v)
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case json.Number:
		b.WriteString(v.String())
	default:
		x.addExpr(at, nth, "let the expression be the whole value", "%s cannot be put inside of a text", describe(v))
		return false
	}
	return true
}

var (
	varRef  = regexp.MustCompile(`^vars\.([A-Za-z_][A-Za-z0-9_]*)((?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]{1,6}\]|\["[^"\\]*"\]|\['[^'\\]*'\])*)$`)
	pathRef = regexp.MustCompile(`\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\]|\["[^"]*"\]|\['[^']*'\]`)
)

// eval gives the value of one expression.
func (x *expander) eval(expr string, at path, nth int) (any, bool) {
	if x.literal {
		x.addExpr(at, nth, "to mean the text ${{ itself, write $${{", "the default of a variable cannot have expressions")
		return nil, false
	}
	if x.vars == nil { // their fault is reported already
		return nil, false
	}
	m := varRef.FindStringSubmatch(expr)
	if m == nil {
		x.addExpr(at, nth, "to mean the text ${{ itself, write $${{", "the expression %q is not understood: this version knows vars.NAME only", cut(expr, 60))
		return nil, false
	}
	v, ok := x.vars[m[1]]
	if !ok {
		hint := "declare it under vars"
		if near := x.nearest(m[1], sortedKeys(x.vars)); near != "" {
			hint = fmt.Sprintf("did you mean vars.%s?", near)
		}
		x.addExpr(at, nth, hint, "no variable %q is declared", m[1])
		return nil, false
	}
	name := "vars." + m[1]
	for _, part := range pathRef.FindAllString(m[2], -1) {
		if _, bad := v.(invalid); bad {
			return nil, false
		}
		next, err := follow(v, part)
		if err != nil {
			x.addExpr(at, nth, "", "%s %v", name, err)
			return nil, false
		}
		v, name = next, name+part
	}
	if _, bad := v.(invalid); bad {
		return nil, false
	}
	return v, true
}

// follow takes one step, .field or [0] or ["field"], into a value.
func follow(v any, part string) (any, error) {
	name := strings.Trim(part, `.[]"'`)
	if strings.HasPrefix(part, "[") && !strings.ContainsAny(part, `"'`) {
		list, ok := v.([]any)
		i, err := strconv.Atoi(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("is no list, but %s", describe(v))
		case err != nil || i >= len(list):
			return nil, fmt.Errorf("has %d items, there is no [%s]", len(list), name)
		}
		return list[i], nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is no mapping, but %s", describe(v))
	}
	next, ok := m[name]
	if !ok {
		return nil, errors.New("has no field " + strconv.Quote(name))
	}
	return next, nil
}

// addExpr reports a fault at the nth ${{ of the text at a path. The text may
// span lines, so it is searched in the file from where the text starts.
func (x *expander) addExpr(at path, nth int, hint, format string, args ...any) {
	if x.full() {
		x.total++
		return
	}
	n, _ := x.src.node(at)
	pos := x.src.valuePos(at)
	if n != nil && n.Kind == yamlv3.ScalarNode {
		offset := x.src.offsetOf(pos)
		for i := 0; ; i++ {
			next := bytes.Index(x.src.src[offset:], []byte("${{"))
			if next < 0 {
				break
			}
			offset += next
			if i == nth {
				pos = x.src.posOf(offset)
				break
			}
			offset += 3
		}
	}
	x.add(x.src, pos, at.String(), hint, format, args...)
}

func deepCopy(v any, size *int) any {
	*size++
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = deepCopy(e, size)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = deepCopy(e, size)
		}
		return l
	}
	return v
}

// cut shortens a text for a message.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
