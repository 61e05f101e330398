package script

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
)

// words are the texts of words, each with its variables as expressions. A variable that
// is a command with flags, as in $KUBECTL apply, is more than one.
func (w *walker) words(all []*syntax.Word) []string {
	var texts []string
	for _, word := range all {
		if p, ok := alone(word); ok {
			texts = append(texts, strings.Fields(w.variable(p))...)
			continue
		}
		texts = append(texts, w.word(word))
	}
	return texts
}

// alone returns the variable that a word is, without quotes.
func alone(word *syntax.Word) (*syntax.ParamExp, bool) {
	if len(word.Parts) != 1 {
		return nil, false
	}
	p, ok := word.Parts[0].(*syntax.ParamExp)
	return p, ok
}

// word is the text of a word.
func (w *walker) word(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	var b strings.Builder
	for _, part := range word.Parts {
		b.WriteString(w.part(part, false))
	}
	return b.String()
}

func (w *walker) part(part syntax.WordPart, quoted bool) string {
	switch part := part.(type) {
	case *syntax.Lit:
		return unquote(part.Value, quoted)
	case *syntax.SglQuoted:
		return part.Value
	case *syntax.DblQuoted:
		var b strings.Builder
		for _, p := range part.Parts {
			b.WriteString(w.part(p, true))
		}
		return b.String()
	case *syntax.ParamExp:
		return w.variable(part)
	case *syntax.CmdSubst:
		return w.output(part)
	}
	return w.unknown("value", part, "a value that only the shell works out")
}

// unquote takes the \ out of a text.
func unquote(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("\\\"$`\n", s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// variable is the value of a variable: a text that is known, or an expression.
func (w *walker) variable(p *syntax.ParamExp) string {
	if p.Param == nil {
		return w.unknown("value", p, "a value that only the shell works out")
	}
	name := p.Param.Value
	if p.Index != nil || p.Slice != nil || p.Repl != nil || p.Length || p.Excl {
		return w.unknown(name, p, "what the shell makes of $"+name)
	}
	value, known := w.values[name]
	if p.Exp != nil {
		switch p.Exp.Op {
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if known {
				return value
			}
			fallback := w.word(p.Exp.Word)
			if foreign.HasExpr(fallback) {
				return fallback
			}
			return w.fromEnv(name, &fallback, p)
		case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		default:
			return w.unknown(name, p, "what the shell makes of $"+name)
		}
	}
	if known {
		return value
	}
	if strings.Trim(name, "0123456789") == "" || strings.ContainsAny(name, "@*#?!$-") {
		return w.unknown("arg_"+name, p, "an argument of the script")
	}
	// Makefiles name programs so, and mean those of the path.
	switch strings.ToLower(name) {
	case "helm", "kubectl":
		return strings.ToLower(name)
	}
	return w.fromEnv(name, nil, p)
}

// fromEnv declares a variable of the environment.
func (w *walker) fromEnv(name string, fallback *string, at syntax.Node) string {
	return foreign.Expr("vars." + w.declare(name, variable{env: name, fallback: fallback, at: w.place(at)}))
}

// unknown declares a variable that has to be given.
func (w *walker) unknown(name string, at syntax.Node, about string) string {
	return foreign.Expr("vars." + w.declare(name, variable{about: about, at: w.place(at)}))
}

// output is what a command prints: the folder of the script, or something that has to be
// given.
func (w *walker) output(c *syntax.CmdSubst) string {
	if text := w.print(c); strings.Contains(text, "dirname") && strings.ContainsAny(text, "$") || text == "$(pwd)" {
		return "."
	}
	name := w.assigning
	if name == "" {
		name = "value"
	}
	w.lost(c, "give it with --set, or take it from the cluster by secret or config_map of the variable", "what a program prints is not known: %s", w.brief(c))
	return w.unknown(name, c, "what the script takes of a program")
}

// path is a path of the script as the plan has it. One that begins with a variable may be
// absolute; where the plan is in another folder, it is the path that the variable has now.
func (w *walker) path(name string) string {
	if foreign.BeginsWithExpr(name) {
		if w.in.FromPlan(w.full("x")) == "./x" {
			return name
		}
		name = w.literal(name)
	}
	return w.in.FromPlan(w.full(name))
}

// full is a path of the script in the terms of Input.
func (w *walker) full(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(w.folder, name)
}
