package lint

import (
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint/secret"
)

// objectNames are fields of objects that hold the name of something, not a secret:
// a key of an ExternalSecret, a Credential of k0rdent's ClusterDeployment.
var objectNames = []string{"secretKey", "credential"}

var expressed = regexp.MustCompile(`\$\{\{(.*?)\}\}`)

const plainHint = "take it from a variable with sensitive: true and env: or secret:, or let the chart use a Secret that exists"

// checkPlainSecrets looks for secrets in values, and in objects that are no Secrets.
func checkPlainSecrets(p *pass) {
	for _, r := range slices.Concat(p.written, p.filed) {
		if r.object && isSecret(r.node) {
			continue // see below
		}
		p.plainSecrets(r, nil)
	}
	p.eachManifest(func(s *plan.Step, o Object, n *yamlv3.Node) {
		switch {
		case isSecret(n):
			p.checkSecretObject(s, o, n)
		case o.Text != s.Origin.Text: // those of the plan itself are among the values
			p.plainSecrets(root{text: o.Text, node: n, at: o.At, object: true}, s)
		}
	})
}

func isSecret(object *yamlv3.Node) bool {
	kind, version := get(object, "kind"), get(object, "apiVersion")
	return kind != nil && kind.Value == "Secret" && version != nil && version.Value == "v1"
}

// checkSecretObject warns of a Secret whose data are in a file.
func (p *pass) checkSecretObject(s *plan.Step, o Object, n *yamlv3.Node) {
	for _, data := range []string{"data", "stringData"} {
		plain := false
		pairs(get(n, data), func(_, v *yamlv3.Node) {
			plain = plain || v.Kind == yamlv3.ScalarNode && v.Value != "" && !isEncrypted(v.Value) && !p.isSensitive(v.Value)
		})
		if plain {
			at := o.location(s, data)
			at.secret = true
			p.add(finding.Warning, s, at, "keep the data elsewhere, such as in External Secrets or in a sensitive variable", "%s has its data in a file", o.is())
			return
		}
	}
}

// plainSecrets looks for secrets below one root.
func (p *pass) plainSecrets(r root, s *plan.Step) {
	found := func(n *yamlv3.Node, at []any, format string, args ...any) {
		p.add(finding.Error, s, location{Place: r.text.PlaceOf(n, at...), text: r.text, secret: true}, plainHint, format, args...)
	}
	visit(r.node, r.name, r.at, func(n *yamlv3.Node, name string, at []any, isKey bool) {
		switch {
		case isKey || n.Kind != yamlv3.ScalarNode || isEncrypted(n.Value):
		case holds(n.Value) != "":
			found(n, at, "%s is written down here", holds(n.Value))
		case !secret.Named(name) || r.object && slices.Contains(objectNames, name):
		case strings.Contains(n.Value, "${{"):
			if !p.isSensitive(n.Value) {
				p.add(finding.Warning, s, location{Place: r.text.PlaceOf(n, at...), text: r.text}, "declare the variable with sensitive: true",
					"%s comes from a variable that is not sensitive, so it is shown", name)
			}
		case isPlain(n):
			found(n, at, "%s is written down here in plain text", name)
		}
	})
	environment(r.node, r.at, func(name string, n *yamlv3.Node, at []any) {
		if secret.Named(name) && isPlain(n) && !isEncrypted(n.Value) {
			found(n, at, "the environment variable %s is written down here in plain text", name)
		}
	})
}

// isEncrypted reports whether a text is a value that SOPS encrypted.
func isEncrypted(text string) bool { return strings.HasPrefix(text, "ENC[AES256_GCM,") }

// holds says what kind of secret a text has in it besides its expressions.
func holds(text string) string {
	if strings.Contains(text, "${{") {
		text = expressed.ReplaceAllString(text, "$$(EXPRESSION)")
	}
	return secret.In(text)
}

// isPlain reports whether a value is a secret itself: text that is no reference.
func isPlain(n *yamlv3.Node) bool {
	return n.Kind == yamlv3.ScalarNode && n.Value != "" && n.ShortTag() == "!!str" && !secret.IsReference(n.Value)
}

// isSensitive reports whether a text is made of expressions whose values are known
// to be secret, or of values that only the run knows.
func (l *linter) isSensitive(text string) bool {
	for _, m := range expressed.FindAllStringSubmatch(text, -1) {
		used := map[string]bool{}
		if reads("${{"+m[1]+"}}", used) || len(used) == 0 {
			return true // whichever it is
		}
		for name := range used {
			v, declared := l.Plan.Vars[name]
			if !declared || v.Secret != nil || v.ConfigMap != nil || v.Sensitive != nil && *v.Sensitive {
				return true
			}
		}
	}
	return false
}

// environment calls f for each pair of name and value in lists, as containers have
// their environment.
func environment(n *yamlv3.Node, at []any, f func(name string, value *yamlv3.Node, at []any)) {
	switch n.Kind {
	case yamlv3.MappingNode:
		name, value := get(n, "name"), get(n, "value")
		if name != nil && value != nil && name.Kind == yamlv3.ScalarNode {
			f(name.Value, value, append(slices.Clip(at), "value"))
		}
		pairs(n, func(key, v *yamlv3.Node) { environment(v, append(slices.Clip(at), key.Value), f) })
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			environment(item, append(slices.Clip(at), i), f)
		}
	default: // scalars have none, aliases are looked at where their anchor is
	}
}
