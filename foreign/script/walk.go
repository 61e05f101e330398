package script

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/internal/scrub"
	"github.com/kplan-dev/kplan/plan/document"
)

// walker goes through the statements of one script.
type walker struct {
	*importer
	name string
	// line is how many lines of the file stand before the text that was parsed.
	line int
	// folder is where the script is, or has changed to.
	folder string
	// values are those of variables, as texts with expressions.
	values map[string]string
	// functions are those of the script.
	functions map[string]*syntax.Stmt
	// context and namespace are what kubectl config set.
	context, namespace string
	// assigning is the variable that is given a value.
	assigning string
	// local says that the variables are those of a function, which are none of the plan.
	local bool
	depth int
	// looping says that the statements are those of a loop that tries again.
	looping bool
	err     error
}

// maxDepth bounds functions that call each other.
const maxDepth = 12

// maxItems bounds the items of a for loop.
const maxItems = 50

func newWalker(im *importer, name string, line int) *walker {
	return &walker{importer: im, name: name, line: line, folder: path.Dir(name), values: map[string]string{}, functions: map[string]*syntax.Stmt{}}
}

// run goes through a script.
func (w *walker) run(file *syntax.File) error {
	w.stmts(file.Stmts)
	return w.err
}

func (w *walker) place(n syntax.Node) document.Place {
	return document.Place{Pos: document.Pos{File: w.name, Line: int(n.Pos().Line()) + w.line, Col: int(n.Pos().Col())}}
}

func (w *walker) lost(n syntax.Node, hint, format string, args ...any) {
	w.result.Lost(w.place(n), hint, format, args...)
}

func (w *walker) changed(n syntax.Node, hint, format string, args ...any) {
	w.result.Changed(w.place(n), hint, format, args...)
}

// literal is a value of an object that kubectl makes, and what follows.
var literal = regexp.MustCompile(`(--from-literal[= ]['"]?[^=]+=).*`)

// print is a part of the script on one line, without what looks like a secret.
func (w *walker) print(n syntax.Node) string {
	var b strings.Builder
	if syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) != nil {
		return "a command"
	}
	text := scrub.Text(strings.Join(strings.Fields(b.String()), " "))
	return document.Cut(literal.ReplaceAllString(text, "${1}(hidden) …"), 100)
}

var plainWord = regexp.MustCompile(`^[A-Za-z][\w.-]*$`)

// brief is print for commands of programs whose options nobody knows here: which of them
// are passwords, too. It has the name and what the program is told to do.
func (w *walker) brief(n syntax.Node) string { return briefly(w.print(n)) }

func briefly(text string) string {
	inner, isOutput := strings.CutPrefix(text, "$(")
	words := strings.Fields(strings.TrimSuffix(inner, ")"))
	for len(words) > 1 && strings.Contains(words[0], "=") { // PASSWORD=… psql
		words = words[1:]
	}
	if len(words) == 0 || isProgram(words[0]) {
		return text
	}
	kept := words[:1]
	if len(words) > 1 && plainWord.MatchString(words[1]) && !strings.ContainsAny(words[0], "/.") {
		kept = words[:2]
	}
	short := strings.Join(kept, " ")
	if len(words) > len(kept) {
		short += " …"
	}
	if isOutput {
		return "$(" + short + ")"
	}
	return short
}

func (w *walker) stmts(all []*syntax.Stmt) {
	for _, s := range all {
		if w.err == nil {
			w.stmt(s)
		}
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil || s.Cmd == nil {
		return
	}
	if w.depth++; w.depth > 200 {
		w.err = fmt.Errorf("%s: the script is nested too deeply", w.place(s).Pos)
		return
	}
	defer func() { w.depth-- }()
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(s, c)
	case *syntax.DeclClause: // export, local, readonly
		was := w.local
		w.local = was || c.Variant.Value == "local"
		w.assign(c.Args)
		w.local = was
	case *syntax.BinaryCmd:
		w.binary(s, c)
	case *syntax.Block:
		w.stmts(c.Stmts)
	case *syntax.Subshell:
		folder, context, namespace := w.folder, w.context, w.namespace
		w.stmts(c.Stmts)
		w.folder, w.context, w.namespace = folder, context, namespace
	case *syntax.FuncDecl:
		w.functions[c.Name.Value] = c.Body
	case *syntax.IfClause:
		w.ifClause(c)
	case *syntax.WhileClause:
		w.loop(c)
	case *syntax.ForClause:
		w.forEach(c)
	case *syntax.TimeClause:
		w.stmt(c.Stmt)
	case *syntax.CaseClause:
		w.lost(c, "import the lines of the case that is meant alone", "which case it is is not known: case %s", w.print(c.Word))
	}
}

// assign notes values of variables.
func (w *walker) assign(all []*syntax.Assign) {
	for _, a := range all {
		if a.Name == nil || a.Naked || a.Array != nil || a.Index != nil {
			continue
		}
		name := a.Name.Value
		w.aim(a, name)
		w.assigning = name
		text := w.word(a.Value)
		w.assigning = ""
		switch {
		case a.Append:
			w.values[name] += text
		case foreign.HasExpr(text) || text == "" || strings.ContainsAny(text, " \t\n") && !strings.Contains(text, "://"):
			w.values[name] = text // it is made of others, or is a command
		case isProgram(text), w.local:
			w.values[name] = text
		default:
			w.values[name] = foreign.Expr("vars." + w.declare(name, variable{fallback: &text, at: w.place(a)}))
		}
	}
}

func isProgram(text string) bool {
	return slices.Contains([]string{"helm", "kubectl", "oc"}, path.Base(text))
}

// binary goes through a && b, a || b and a | b.
func (w *walker) binary(s *syntax.Stmt, c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.AndStmt:
		if isTest(c.X) {
			w.conditional(c, w.print(c.X), func() { w.stmt(c.Y) })
			return
		}
		w.stmt(c.X)
		w.stmt(c.Y)
	case syntax.OrStmt:
		if isTest(c.X) { // [ -n "$X" ] || exit 1, kubectl get ns a || kubectl create ns a
			w.stmt(c.Y)
			return
		}
		before := w.steps
		w.stmt(c.X)
		if w.installs(c.Y) {
			w.lost(c.Y, "a step with needs: [{step: NAME, on: failure}] runs when another one failed", "what the script does when that fails is not in the plan: %s", w.print(c.Y))
		} else if text := w.print(c.Y); (text == "true" || text == ":") && w.steps > before {
			w.changed(c.Y, "a step that needs it with on: always runs all the same", "the script goes on when this fails, and the plan does not")
		}
	default:
		w.pipe(s, c)
	}
}

// isTest reports whether a command only asks something.
func isTest(s *syntax.Stmt) bool {
	switch c := s.Cmd.(type) {
	case *syntax.TestClause:
		return true
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return false
		}
		switch first := c.Args[0].Lit(); first {
		case "[", "test", "command", "which", "type", "grep", "true", "false":
			return true
		case "kubectl", "helm":
			if len(c.Args) > 1 {
				return slices.Contains([]string{"get", "status", "list", "ls", "version"}, c.Args[1].Lit())
			}
		}
	case *syntax.BinaryCmd:
		return isTest(c.X) && (isTest(c.Y) || c.Op == syntax.Pipe || c.Op == syntax.PipeAll)
	}
	return false
}

// installs reports whether helm or kubectl is called somewhere in it.
func (w *walker) installs(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch lit := path.Base(c.Args[0].Lit()); {
			case lit == "helm", lit == "kubectl":
				found = true
			case w.functions[lit] != nil && w.depth < maxDepth:
				w.depth++
				found = found || w.installs(w.functions[lit])
				w.depth--
			}
		}
		return !found
	})
	return found
}

// conditional goes through statements that may run or not.
func (w *walker) conditional(n syntax.Node, condition string, body func()) {
	before := w.steps
	body()
	if w.steps > before && !strings.Contains(condition, "kubectl get") && !strings.Contains(condition, "helm status") {
		w.changed(n, "say when by the field when of the steps, or take them out", "the script does this only if %s, and the plan always", condition)
	}
}

func (w *walker) ifClause(c *syntax.IfClause) {
	var conditions []string
	for _, s := range c.Cond {
		if w.installs(s) && !isTest(s) {
			w.stmt(s) // if helm upgrade …; then
		}
		conditions = append(conditions, w.print(s))
	}
	w.conditional(c, strings.Join(conditions, "; "), func() { w.stmts(c.Then) })
	for other := c.Else; other != nil; other = other.Else {
		for _, s := range other.Then {
			if w.installs(s) {
				w.lost(s, "import those lines alone, or write steps with when", "what the script does otherwise is not in the plan: %s", w.print(s))
			}
		}
	}
}

// loop goes through a while or until loop, of which a plan does the body once.
func (w *walker) loop(c *syntax.WhileClause) {
	for _, s := range c.Cond {
		if w.installs(s) && !isTest(s) {
			w.stmt(s)
			w.changed(c, "retry says how often a step is tried", "the loop that tries again is left out: kplan holds a request that a webhook cannot judge yet, and tries again by itself when it can")
		} else if call, ok := s.Cmd.(*syntax.CallExpr); ok && isTest(s) && w.installs(s) {
			w.poll(c, call)
		}
	}
	was := w.looping
	w.looping = true
	before := w.steps
	w.stmts(c.Do)
	w.looping = was
	if w.steps > before {
		w.changed(c, "retry says how often a step is tried", "the loop that tries again is left out: kplan holds a request that a webhook cannot judge yet, and tries again by itself when it can")
	}
}

// forEach goes through the items of a loop that are known.
func (w *walker) forEach(c *syntax.ForClause) {
	each, ok := c.Loop.(*syntax.WordIter)
	if !ok || len(each.Items) == 0 {
		w.looping = true
		w.stmts(c.Do)
		w.looping = false
		return
	}
	items := w.words(each.Items)
	counts := len(items) > 0 && !slices.ContainsFunc(items, func(s string) bool { return strings.Trim(w.literal(s), "0123456789{}.") != "" })
	if counts || len(items) > maxItems {
		w.looping = true
		before := w.steps
		w.stmts(c.Do)
		w.looping = false
		if w.steps > before {
			w.changed(c, "retry says how often a step is tried", "the loop that tries again is left out: kplan holds a request that a webhook cannot judge yet, and tries again by itself when it can")
		}
		return
	}
	name := each.Name.Value
	was, had := w.values[name]
	for _, item := range items {
		w.values[name] = item
		w.stmts(c.Do)
	}
	if w.values[name] = was; !had {
		delete(w.values, name)
	}
}
