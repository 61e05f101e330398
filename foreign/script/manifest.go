package script

import (
	"cmp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
)

// heredoc is the text that a command reads from the script itself.
func heredoc(s *syntax.Stmt) *syntax.Word {
	for _, r := range s.Redirs {
		if r.Hdoc != nil {
			return r.Hdoc
		}
	}
	return nil
}

// manifest writes manifests of the script into a file, and makes a step that applies it.
func (w *walker) manifest(s *syntax.Stmt, text *syntax.Word, args []string) {
	content := w.word(text)
	var told foreign.Report
	docs, err := foreign.Read(foreign.File{Name: w.name, Data: []byte(content)}, foreign.Options{}, &told)
	if err != nil {
		w.lost(s, "write them into a file and name it in apply.files", "manifests of the script are no YAML, and not in the plan")
		return
	}
	step, f := w.applyStep(s, args[1:], "manifest")
	if step == nil {
		return
	}
	var nodes []*yaml.Node
	hidden := false
	for _, doc := range docs {
		n, has := w.withoutSecrets(s, cmp.Or(foreign.Identifier(w.literal(doc.Get("metadata", "name").Peek())), step.Name), doc)
		nodes, hidden = append(nodes, n), hidden || has
	}
	evaluated := hidden || foreign.HasExpr(content)
	if evaluated {
		f.Set("evaluate", true)
		content = strings.ReplaceAll(content, "${{", "$${{")
	}
	written := foreign.Written(content)
	if hidden || !isYAML(written) { // within { } an expression has to be quoted
		if written, err = texts(nodes); err != nil {
			w.err = err
			return
		}
	}
	f.Set("files", []string{w.file("manifests", step.Name, written)})
}

// withoutSecrets is an object with a variable in the place of each secret, if it has one.
func (w *walker) withoutSecrets(s *syntax.Stmt, owner string, doc *foreign.Value) (n *yaml.Node, has bool) {
	n = doc.Node()
	of := doc.Get("kind").Peek() + " " + w.literal(doc.Get("metadata", "name").Peek())
	hide := func(value *yaml.Node, name, what string) {
		id := w.plan.Secret(cmp.Or(foreign.Identifier(owner+"_"+name), "secret"), what+" of the "+of)
		w.result.Add(foreign.SecretFinding(w.place(s), id))
		*value = *foreign.TextNode(foreign.Expr("vars." + id))
		has = true
	}
	all := doc.Get("kind").Peek() == "Secret"
	var walk func(n *yaml.Node, name string, secret bool)
	walk = func(n *yaml.Node, name string, secret bool) {
		for i, x := range n.Content {
			inner, hidden := name, secret
			if n.Kind == yaml.MappingNode {
				if i%2 == 0 {
					continue
				}
				inner = n.Content[i-1].Value
				if i > 1 && inner == "value" { // {name: PASSWORD, value: …} is a variable of a container
					inner = cmp.Or(field(n, "name"), inner)
				}
				hidden = secret || all && name == "" && slices.Contains([]string{"data", "stringData"}, inner)
			}
			if x.Kind != yaml.ScalarNode {
				walk(x, inner, hidden)
				continue
			}
			switch base64 := name == "data" && all; {
			case foreign.HasExpr(x.Value) || x.Value == "":
			case secret && base64:
				hide(x, inner, inner+", in base64,")
			case secret || foreign.HasSecret(inner, x):
				hide(x, inner, inner)
			}
		}
	}
	walk(n, "", false)
	return n, has
}

// field is the text of a field of a mapping.
func field(n *yaml.Node, name string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1].Value
		}
	}
	return ""
}

func isYAML(text string) bool {
	_, err := foreign.Read(foreign.File{Data: []byte(text)}, foreign.Options{}, &foreign.Report{})
	return err == nil
}

// texts are objects as a file has them whose expressions are evaluated.
func texts(nodes []*yaml.Node) (string, error) {
	var all []string
	for _, n := range nodes {
		text, err := foreign.Text(n, true)
		if err != nil {
			return "", err
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n"), nil
}
