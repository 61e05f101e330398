package flux

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
)

// postBuild takes the values that a Kustomization puts in the place of ${NAME}. Those of
// ConfigMaps are known where these are among the files; those of Secrets are not copied.
func (im *importer) postBuild(g *group, build *foreign.Value) {
	g.values, g.vars = map[string]*foreign.Value{}, map[string]string{}
	for _, from := range build.Get("substituteFrom").Items() {
		g.substitutes = true
		kind, name := from.Get("kind").Peek(), from.Get("name").Peek()
		if o := im.configMap(kind, name, g.namespace); o != nil {
			for _, v := range o.Get("data").Fields() {
				g.values[v.Name()] = v
			}
			from.Take()
			continue
		}
		g.unknown = true
		from.Lost("give each as a variable: --set, a var file, or secret or config_map of the variable where it is needed late", "values of the %s %s are not known here", kind, name)
	}
	for _, v := range build.Get("substitute").Fields() { // they win
		g.substitutes = true
		g.values[v.Name()] = v
		v.Take()
	}
}

// substituteApplied puts variables into the objects of a step. Files are sent as they
// are, which is told where it matters.
func (g *group) substituteApplied(s *foreign.Step) {
	if !g.substitutes {
		return
	}
	if objects := s.Fields.Value("objects"); objects != nil {
		for _, o := range objects.Content {
			if child(child(child(o, "metadata"), "annotations"), disabled) == nil {
				g.substitute(o)
			}
		}
	}
	overlay := s.Fields.Value("kustomize")
	for _, o := range g.members {
		if !g.im.hasDollar(o.File) || overlay == nil && !lists(s.Fields.Value("files"), g.im.in.FromPlan(o.File)) {
			continue
		}
		g.v.Get("spec", "postBuild").Lost("write ${{ vars.NAME }} into the files and give the step evaluate: true", "${NAME} in the files of the step %s is sent as it is", s.Name)
		return
	}
}

// disabled is the annotation of objects that keep ${NAME}.
const disabled = "kustomize.toolkit.fluxcd.io/substitute"

// child is the value of a field; nil when there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// lists reports whether a list has a text.
func lists(n *yaml.Node, text string) bool {
	if n != nil {
		for _, item := range n.Content {
			if item.Value == text {
				return true
			}
		}
	}
	return false
}

// hasDollar reports whether a file that was read may have ${NAME}.
func (im *importer) hasDollar(name string) bool {
	for _, f := range im.in.Files {
		if f.Name == name {
			return bytes.Contains(f.Data, []byte("${"))
		}
	}
	data, err := im.in.Read(name)
	return err == nil && bytes.Contains(data, []byte("${"))
}

// substitute makes variables of ${NAME} in a value, which it changes and returns.
func (g *group) substitute(n *yaml.Node) *yaml.Node {
	if n == nil || !g.substitutes {
		return n
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
		if text := g.text(n.Value); text != n.Value {
			if code, one := foreign.OnlyExpr(text); one && plain {
				text = foreign.Expr(g.typed(code))
			}
			n.SetString(text)
		}
	}
	for _, x := range n.Content {
		g.substitute(x)
	}
	return n
}

// typed is the code of a variable that stands in a file without quotes: there 2 is a
// number and true no text.
func (g *group) typed(code string) string {
	for name, id := range g.vars {
		if code != "vars."+id || g.values[name] == nil {
			continue
		}
		value := g.values[name].Peek()
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			return "int(" + code + ")"
		}
		if value == "true" || value == "false" {
			return "bool(" + code + ")"
		}
	}
	return code
}

// text makes variables of ${NAME} and ${NAME:=default} in a text. $${NAME} is text. What
// else envsubst can do is told of, and stays as it is.
func (g *group) text(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(s)
			return b.String()
		}
		if escaped, is := strings.CutSuffix(before, "$"); is {
			b.WriteString(escaped + "${")
			s = rest
			continue
		}
		b.WriteString(before)
		inside, after, closed := closing(rest)
		name, fallback, given := split(inside)
		switch {
		case !closed || name == "":
			b.WriteString("${")
			s = rest
			continue
		case given && (fallback == "" || g.values[name] != nil || !strings.Contains(fallback, "${")):
			b.WriteString(foreign.Expr("vars." + g.variable(name, &fallback)))
		case given: // only the default of the default is known
			b.WriteString(g.text(fallback))
		case name != inside:
			g.v.Get("spec", "postBuild").Lost("write what it becomes", "${%s} is not understood, and stays as it is", inside)
			b.WriteString("${" + inside + "}")
		default:
			b.WriteString(foreign.Expr("vars." + g.variable(name, nil)))
		}
		s = after
	}
}

// closing splits a text at the } that ends what a ${ before it began.
func closing(s string) (inside, after string, ok bool) {
	depth := 0
	for i := range len(s) {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			depth++
		case s[i] == '}' && depth == 0:
			return s[:i], s[i+1:], true
		case s[i] == '}':
			depth--
		}
	}
	return "", s, false
}

// split splits NAME:=default. The name is "" when there is none; what follows one
// otherwise is left to be seen by its length.
func split(inside string) (name, fallback string, given bool) {
	end := 0
	for end < len(inside) && (inside[end] == '_' || inside[end] >= 'a' && inside[end] <= 'z' || inside[end] >= 'A' && inside[end] <= 'Z' || end > 0 && inside[end] >= '0' && inside[end] <= '9') {
		end++
	}
	name, rest := inside[:end], strings.TrimPrefix(inside[end:], ":")
	if strings.HasPrefix(rest, "=") || strings.HasPrefix(rest, "-") {
		return name, rest[1:], true
	}
	return name, "", false
}

// variable is the plan's variable of a name of postBuild. Another Kustomization may give
// the same name another value: that is another variable.
func (g *group) variable(name string, fallback *string) string {
	id := g.vars[name]
	if id == "" {
		id = g.declare(name, fallback)
		g.vars[name] = id
	}
	f := g.im.plan.Var(id, "")
	if fallback == nil || g.values[name] != nil {
		return id
	}
	switch was := f.Value("default"); {
	case was == nil:
		f.Keep("default", foreign.TextNode(*fallback))
	case was.Value != *fallback:
		g.v.Get("spec", "postBuild").Changed("", "${%s} has several defaults: the variable %s has the first one", name, id)
	}
	return id
}

// declare declares a variable with the value of a name, or finds the one that another
// Kustomization has declared for the same.
func (g *group) declare(name string, fallback *string) string {
	v := g.values[name]
	meant := "unknown"
	switch {
	case v != nil:
		meant = "=" + v.Peek()
	case fallback != nil:
		meant = "unknown:" + *fallback
	case !g.unknown:
		meant = "=" // nobody gives it a value: it is empty
	}
	short := cmp.Or(foreign.Identifier(strings.ToLower(name)), "value")
	long := cmp.Or(foreign.Identifier(strings.ReplaceAll(g.name, "-", "_")+"_"+short), short)
	for n := 1; ; n++ {
		id := short
		switch {
		case n == 2:
			id = long
		case n > 2:
			id = long + "_" + strconv.Itoa(n-1)
		}
		if g.im.meant[id] == meant {
			return id
		}
		if g.im.plan.Vars.Value(id) != nil {
			continue
		}
		g.im.meant[id] = meant
		f := g.im.plan.Var(id, "")
		switch {
		case v == nil && meant == "=":
			f.Keep("default", foreign.TextNode(""))
		case v == nil:
		case foreign.HasSecret(name, foreign.TextNode(v.Peek())):
			f.Set("sensitive", true)
			g.im.result.Add(foreign.SecretAt(v, id))
		default:
			f.Keep("default", foreign.Scalar(v, v.Peek()))
		}
		return id
	}
}
