package helmfile

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/lint/secret"
)

// build says how helmfile itself renders what only it can.
const build = "let helmfile render it: helmfile -e ENVIRONMENT build --embed-values | kplan import helmfile -"

// unknown stands in a text for an action of a template that cannot be rendered here. It
// is a private character of Unicode, which no file has.
const unknown = '\uE0E2'

// hasUnknown reports whether a text depends on what cannot be rendered.
func hasUnknown(s string) bool { return strings.ContainsRune(s, unknown) }

// environmentVar is the variable that has the name of the environment.
const environmentVar = "environment"

// variable is what a template reads besides the values of environments.
type variable struct {
	// env is the environment variable that it reads.
	env string
	// fallback is what it is without one; nil when it must be there.
	fallback *string
}

// template renders as much of a helmfile as can be rendered without values: what reads a
// value becomes an expression.
type template struct {
	file   string
	report *foreign.Report
	// vars are the environment variables that are read, by the plan's name for them.
	vars map[string]variable
	// shifts are the lines on which texts have become longer or shorter.
	shifts map[int][]shift
}

// shift says how many more characters a line has from a column on than in the file.
type shift struct{ from, by int }

// column is where a column of the rendered text is in the file.
func (t *template) column(line, col int) int {
	by := 0
	for _, s := range t.shifts[line] {
		if col >= s.from {
			by = s.by
		}
	}
	return max(col-by, 1)
}

// action is one {{ … }} of a text, from begin to end.
type action struct {
	begin, end int
	code       string
}

// assignment is an action that gives a variable of the template its value.
var assignment = regexp.MustCompile(`^\$\w+\s*:?=`)

var control = regexp.MustCompile(`^(if|range|with|define|block)\b`)

// next finds the first action from an offset on that stands in no comment of YAML.
func next(text string, from int) (a action, ok bool) {
	for {
		i := strings.Index(text[from:], "{{")
		if i < 0 {
			return a, false
		}
		a.begin = from + i
		line := text[strings.LastIndexByte(text[:a.begin], '\n')+1 : a.begin]
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			if from = strings.IndexByte(text[a.begin:], '\n'); from < 0 {
				return a, false
			}
			from += a.begin
			continue
		}
		a.end = actionEnd(text, a.begin+2)
		if a.end < 0 {
			return a, false
		}
		code := strings.TrimSuffix(strings.TrimPrefix(text[a.begin+2:a.end-2], "-"), "-")
		a.code = strings.TrimSpace(code)
		return a, true
	}
}

// actionEnd is behind the }} that ends an action, which may have }} within quotes; -1
// when there is none.
func actionEnd(text string, i int) int {
	var quote byte
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"', c == '`':
			quote = c
		case c == '}' && strings.HasPrefix(text[i:], "}}"):
			return i + 2
		}
	}
	return -1
}

// render returns the text with its actions put in. Lines stay where they are.
func (t *template) render(text string) string {
	var b strings.Builder
	at := 0
	for at < len(text) {
		a, ok := next(text, at)
		if !ok {
			break
		}
		end := a.end
		b.WriteString(text[at:a.begin])
		switch {
		case strings.HasPrefix(a.code, "/*"):
			b.WriteString(breaks(text[a.begin:end]))
		case control.MatchString(a.code):
			end = blockEnd(text, end)
			t.dropBlock(&b, text, a, end)
		default:
			t.put(&b, text, a)
		}
		at = end
	}
	b.WriteString(text[at:])
	return b.String()
}

// breaks are the line breaks of a text.
func breaks(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }

// blockEnd is behind the end of a block whose first action ends at an offset, or the end
// of the text when it has none.
func blockEnd(text string, at int) int {
	for depth := 1; ; {
		a, ok := next(text, at)
		if !ok {
			return len(text)
		}
		at = a.end
		switch {
		case control.MatchString(a.code):
			depth++
		case a.code == "end":
			if depth--; depth == 0 {
				return at
			}
		}
	}
}

// dropBlock leaves out a block, such as {{ if }} … {{ end }}: nobody knows here what of it
// holds. Within a line an unknown text stands for it.
func (t *template) dropBlock(b *strings.Builder, text string, a action, end int) {
	first := 1 + strings.Count(text[:a.begin], "\n")
	last := first + strings.Count(text[a.begin:end], "\n")
	what := fmt.Sprintf("line %d depends on a template ({{ %s }}) and is not imported", first, a.code)
	if last > first {
		what = fmt.Sprintf("lines %d to %d depend on a template ({{ %s }}) and are not imported", first, last, a.code)
	}
	t.report.Lost(t.place(text, a.begin), build, "%s", what)
	before := text[strings.LastIndexByte(text[:a.begin], '\n')+1 : a.begin]
	after, _, _ := strings.Cut(text[end:], "\n")
	if strings.TrimSpace(before) != "" || strings.TrimSpace(after) != "" {
		b.WriteRune(unknown)
	}
	b.WriteString(breaks(text[a.begin:end]))
}

func (t *template) place(text string, offset int) document.Place {
	start := strings.LastIndexByte(text[:offset], '\n') + 1
	return document.Place{Pos: document.Pos{
		File: t.file, Line: 1 + strings.Count(text[:offset], "\n"), Col: 1 + utf8.RuneCountInString(text[start:offset]),
	}}
}

// put writes what an action stands for.
func (t *template) put(b *strings.Builder, text string, a action) {
	source := text[a.begin:a.end]
	var made string
	switch {
	case len(a.code) > 1 && a.code[0] == '`' && a.code[len(a.code)-1] == '`':
		made = a.code[1 : len(a.code)-1] // {{`{{ .Release.Name }}`}} is for later
	case strings.HasPrefix(a.code, ".Release."):
		made = source
	default:
		code, quoted, ok := t.expression(a.code)
		switch {
		case ok && quoted:
			made = `"` + foreign.Expr(code) + `"`
		case ok:
			made = foreign.Expr(code)
		case assignment.MatchString(a.code): // it writes nothing itself
			t.report.Lost(t.place(text, a.begin), build, "the template {{ %s }} is not rendered", a.code)
		default:
			made = indent(text, a) + string(unknown)
			t.report.Lost(t.place(text, a.begin), build, "the template {{ %s }} is not rendered", a.code)
		}
	}
	b.WriteString(made + breaks(source))
	place := t.place(text, a.begin)
	if before := t.shifts[place.Line]; !strings.Contains(source, "\n") {
		by := 0
		if len(before) > 0 {
			by = before[len(before)-1].by
		}
		by += utf8.RuneCountInString(made) - utf8.RuneCountInString(source)
		t.shifts[place.Line] = append(before, shift{from: place.Col + by + utf8.RuneCountInString(source), by: by})
	}
}

// indent is what an action that is alone on its line needs before it, so that what stands
// for it is within what the line before begins: its template would have indented it.
func indent(text string, a action) string {
	start := strings.LastIndexByte(text[:a.begin], '\n') + 1
	after, _, _ := strings.Cut(text[a.end:], "\n")
	if start == 0 || text[start:a.begin] != "" || strings.TrimSpace(after) != "" {
		return ""
	}
	before := strings.TrimRight(text[:start], " \t\n")
	line := before[strings.LastIndexByte(before, '\n')+1:]
	width := len(line) - len(strings.TrimLeft(line, " -"))
	if strings.HasSuffix(line, ":") || strings.HasSuffix(line, "|") || strings.HasSuffix(line, "|-") || strings.HasSuffix(line, ">") || strings.HasSuffix(line, ">-") {
		width += 2
	}
	return strings.Repeat(" ", width)
}

var (
	valuePath  = regexp.MustCompile(`^\.(?:Values|StateValues|Environment\.Values)((?:\.[A-Za-z_]\w*)+)$`)
	valuesGet  = regexp.MustCompile(`^\.(?:Values|StateValues|Environment\.Values)\s*\|\s*get\s+"([A-Za-z_][\w.]*)"$`)
	fromEnv    = regexp.MustCompile(`^(env|requiredEnv)\s+"([A-Za-z_]\w*)"$`)
	fallbackTo = regexp.MustCompile(`^default\s+"([^"\\]*)"$`)
)

// expression is what of CEL a pipeline is, and whether it is put in quotes.
func (t *template) expression(code string) (expr string, quoted, ok bool) {
	if m := valuesGet.FindStringSubmatch(code); m != nil {
		return "vars." + m[1], false, true
	}
	stages := strings.Split(code, "|")
	head := strings.TrimSpace(stages[0])
	if strings.HasPrefix(head, "(") && strings.HasSuffix(head, ")") {
		head = strings.TrimSpace(head[1 : len(head)-1])
	}
	var fallback *string
	for _, stage := range stages[1:] {
		stage = strings.TrimSpace(stage)
		if m := fallbackTo.FindStringSubmatch(stage); m != nil {
			fallback = &m[1]
			continue
		}
		switch stage {
		case "quote", "squote":
			quoted = true
		case "toString", "trim":
		default:
			return "", false, false
		}
	}
	switch m := fromEnv.FindStringSubmatch(head); {
	case m != nil:
		if m[1] == "env" && fallback == nil {
			fallback = new(string)
		}
		return "vars." + t.env(m[2], fallback), quoted, true
	case fallback != nil:
		return "", false, false
	case head == ".Environment.Name":
		return "vars." + environmentVar, quoted, true
	}
	if m := valuePath.FindStringSubmatch(head); m != nil {
		return "vars" + m[1], quoted, true
	}
	return "", false, false
}

// env declares a variable of the environment.
func (t *template) env(name string, fallback *string) string {
	v := strings.ToLower(name)
	t.vars[v] = variable{name, fallback}
	return v
}

// declareEnv declares such a variable in the plan, if it is one.
func declareEnv(p *foreign.Plan, vars map[string]variable, name string) bool {
	v, ok := vars[name]
	if !ok {
		return false
	}
	f := p.Var(name, "")
	f.Set("env", v.env)
	hidden := secret.Named(v.env)
	if v.fallback != nil && !hidden {
		f.Keep("default", foreign.TextNode(*v.fallback))
	}
	if hidden {
		f.Set("sensitive", true)
	}
	return true
}

var releaseField = regexp.MustCompile(`\{\{-?\s*\.Release\.(Name|Namespace|Chart|KubeContext|Labels\.([\w-]+))\s*(?:\|\s*quote\s*)?-?\}\}`)
