package script

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
)

// harmless are commands that change nothing that a plan is about.
var harmless = []string{
	"echo", "printf", "set", "shopt", "trap", "export", "exit", "return", "true", "false", ":", "shift", "test", "[", "read", "local", "readonly", "unset",
	"break", "continue", "pushd", "popd", "date", "command", "which", "type", "pwd", "ls", "tput", "clear", "cat", "grep", "awk", "sed", "head", "tail", "jq",
	"yq", "wc", "tr", "cut", "sort", "umask", "getopts", "dirname", "basename", "wait", "seq", "let", "tee", "log", "info", "warn", "error", "die",
}

// prefixes are programs that run another one.
var prefixes = []string{"sudo", "time", "exec", "command", "nohup", "nice", "env", "eval"}

// call goes through one command.
func (w *walker) call(s *syntax.Stmt, c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		w.assign(c.Assigns)
		return
	}
	for _, a := range c.Assigns {
		w.aim(a, a.Name.Value)
	}
	args := w.words(c.Args)
	for len(args) > 1 && (slices.Contains(prefixes, args[0]) || args[0] == "timeout") {
		first := args[0]
		args = args[1:]
		for len(args) > 0 && (strings.HasPrefix(args[0], "-") || first == "timeout" && strings.Trim(args[0], "0123456789smh") == "" || first == "env" && strings.Contains(args[0], "=")) {
			if name, _, ok := strings.Cut(args[0], "="); ok && first == "env" {
				w.aim(s, name)
			}
			args = args[1:]
		}
	}
	if len(args) == 0 {
		return
	}
	switch name := path.Base(w.literal(args[0])); {
	case name == "helm":
		w.helm(s, args[1:])
	case name == "kubectl", name == "oc":
		w.kubectl(s, args[1:])
	case name == "sleep":
		w.changed(s, "", "sleep is left out: a step waits for what it needs, and kplan holds a request that a webhook cannot judge yet")
	case name == "cd" && len(args) > 1:
		w.folder = w.full(w.literal(args[1]))
	case name == "source" || name == ".":
		w.source(s, args)
	case w.functions[name] != nil:
		w.function(s, name, args[1:])
	case name == "make" || name == "bash" || name == "sh" || strings.HasSuffix(name, ".sh"):
		w.lost(s, "import that file too, in the order in which it runs", "what %s does is not in the plan", w.brief(s))
	case !slices.Contains(harmless, name):
		w.lost(s, "run it before or after kplan, if the plan needs it", "the program %s is not run: %s", name, w.brief(s))
	}
}

// function goes through the body of one.
func (w *walker) function(s *syntax.Stmt, name string, args []string) {
	if w.depth > 100 {
		w.lost(s, "", "the function %s calls itself", name)
		return
	}
	was := map[string]string{}
	for i := range 10 {
		key := string(rune('0' + i))
		if v, ok := w.values[key]; ok {
			was[key] = v
			delete(w.values, key)
		}
	}
	for i, a := range args {
		if i < 9 {
			w.values[string(rune('1'+i))] = a
		}
	}
	w.depth += 8
	w.stmt(w.functions[name])
	w.depth -= 8
	for i := range 10 {
		key := string(rune('0' + i))
		if v, ok := was[key]; ok {
			w.values[key] = v
		} else {
			delete(w.values, key)
		}
	}
}

// source goes through another script.
func (w *walker) source(s *syntax.Stmt, args []string) {
	name := ""
	if len(args) > 1 {
		name = args[1]
	}
	full := w.full(w.literal(name))
	data, err := w.in.Read(full)
	if name == "" || foreign.HasExpr(name) || err != nil || w.depth > 100 {
		w.lost(s, "import it together with this one", "the script %s is not read", w.literal(name))
		return
	}
	file, err := parse(full, foreign.Clean(string(data)))
	if err != nil {
		w.lost(s, "", "the script %s is not read: %v", name, err)
		return
	}
	inner := *w
	inner.name, inner.line, inner.depth = full, 0, w.depth+20
	inner.stmts(file.Stmts)
	w.err, w.context, w.namespace = inner.err, inner.context, inner.namespace
}

// pipe goes through a | b, of which plans have some.
func (w *walker) pipe(s *syntax.Stmt, c *syntax.BinaryCmd) {
	from, to := commandOf(w, c.X), commandOf(w, c.Y)
	applies := slices.Contains([]string{"apply", "create", "replace"}, w.verb(s, to)) && slices.Contains(to, "-")
	switch {
	case !applies:
		w.stmt(c.X)
		if w.installs(c.Y) {
			w.lost(c.Y, "write it as a step", "a command that reads what another one prints is not in the plan: %s", w.print(c.Y))
		} else {
			w.stmt(c.Y)
		}
	case len(from) > 0 && from[0] == "cat" && heredoc(c.X) != nil:
		w.manifest(s, heredoc(c.X), to)
	case len(from) > 1 && (from[0] == "kustomize" && from[1] == "build" || path.Base(from[0]) == "kubectl" && from[1] == "kustomize"):
		folder := "."
		for _, a := range from[2:] {
			if !strings.HasPrefix(a, "-") {
				folder = a
			}
		}
		step, f := w.applyStep(s, to[1:], path.Base(w.literal(folder)))
		if step != nil {
			f.Set("kustomize", w.path(folder))
		}
	case w.verb(s, from) == "create" && slices.ContainsFunc(from, func(a string) bool { return strings.HasPrefix(a, "--dry-run") }):
		w.kubectl(s, slices.DeleteFunc(from[1:], func(a string) bool { return strings.HasPrefix(a, "--dry-run") }))
	default:
		w.lost(s, "write the manifests into a file and name it in apply.files; with evaluate: true it may read variables", "manifests that a program makes are not in the plan: %s", w.brief(c.X))
	}
}

// verb is what a command of kubectl does; "" for another program.
func (w *walker) verb(s *syntax.Stmt, command []string) string {
	if len(command) == 0 || path.Base(command[0]) != "kubectl" {
		return ""
	}
	if p := w.flagsOfKubectl(s, command[1:]); len(p.args) > 0 {
		return p.args[0]
	}
	return ""
}

// commandOf are the words of a statement that is one command.
func commandOf(w *walker, s *syntax.Stmt) []string {
	if c, ok := s.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 {
		return w.words(c.Args)
	}
	return nil
}

// applyStep makes a step that applies something by the arguments of kubectl: flags may
// stand before the verb too.
func (w *walker) applyStep(s *syntax.Stmt, args []string, name string) (*foreign.Step, *foreign.Fields) {
	flags := w.flags(s, "kubectl apply", args, kubectlFlags)
	step, err := w.add(plan.KindApply, "apply-"+strings.TrimSuffix(name, path.Ext(name)))
	if err != nil {
		w.err = err
		return nil, nil
	}
	w.where(step, flags)
	w.applyFlags(s, step, flags)
	return step, &step.Fields
}
