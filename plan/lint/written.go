package lint

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// raw is what the file has for a field of a step.
func raw(s *plan.Step, fields ...any) string {
	return rawAt(s.Origin.Text, slices.Concat(s.Origin.At, document.Path(fields)))
}

func rawAt(t *document.Source, at []any) string {
	if t == nil {
		return ""
	}
	if n := t.Find(at...); n != nil && n.Kind == yamlv3.ScalarNode {
		return n.Value
	}
	return ""
}

// asWritten returns a Certificate's name and namespace as the plan writes them: the
// values are those of one run, or of one item of for_each. What charts and files
// have is copied, if it is so for all items.
func (m *fixer) asWritten(c sent) (waitKey, error) {
	s, o := c.step, c.object
	key := waitKey{step: written(s), name: o.name(), namespace: m.writtenNamespace(c)}
	t := s.Origin.Text
	if o.Text != nil && o.Text == t {
		key.name = cmp.Or(rawAt(t, append(slices.Clip(o.At), "metadata", "name")), key.name)
		return key, nil
	}
	if release := s.ReleaseName(); s.Helm != nil && hasExpression(s, "helm", "release") && (key.name == release || strings.HasPrefix(key.name, release+"-")) {
		key.name = raw(s, "helm", "release") + strings.TrimPrefix(key.name, release)
		return key, nil
	}
	for _, other := range m.made[key.step] {
		same := func(o Object) bool {
			return o.kind() == "Certificate" && o.name() == key.name && m.writtenNamespace(sent{other, o}) == key.namespace
		}
		if !slices.ContainsFunc(m.Objects[other.Name], same) {
			return key, errForEach
		}
	}
	return key, nil
}

// writtenNamespace is a Certificate's namespace as the plan writes it; "" is that
// of the cluster's connection.
func (m *fixer) writtenNamespace(c sent) string {
	s, o := c.step, c.object
	if o.Text != nil {
		return cmp.Or(rawAt(o.Text, append(slices.Clip(o.At), "metadata", "namespace")), raw(s, "apply", "namespace"))
	}
	if ns := o.namespace(); s.Helm == nil || ns != "" && ns != cmp.Or(s.Helm.Namespace, "default") {
		return ns
	}
	return raw(s, "helm", "namespace")
}

// base is what the name of the step that waits begins with.
func (k waitKey) base(c sent) string {
	if strings.Contains(k.name, "${{") {
		return raw(c.step, "name")
	}
	return k.name
}

// waitFields are the fields of the step that waits but for its name.
func waitFields(certStep *yamlv3.Node, cert waitKey) ([]string, error) {
	fields := []string{"needs: [" + get(certStep, "name").Value + "]"}
	if each := get(certStep, "for_each"); each != nil {
		text, err := inFlow(each)
		if err != nil {
			return nil, err
		}
		fields = append(fields, "for_each: "+text)
	}
	if cluster := get(certStep, "cluster"); cluster != nil {
		fields = append(fields, "cluster: "+quoted(cluster.Value))
	}
	namespace := ""
	if cert.namespace != "" {
		namespace = "namespace: " + quoted(cert.namespace) + ", "
	}
	return append(fields, "wait: {resource: "+quoted("certificate/"+cert.name)+", "+namespace+"for: condition=Ready}"), nil
}

// inFlow writes a value on one line, without its comments.
func inFlow(n *yamlv3.Node) (string, error) {
	bare, err := stripped(n)
	if err != nil {
		return "", err
	}
	text, err := yamlv3.Marshal(bare)
	if err != nil {
		return "", err
	}
	if text = bytes.TrimSpace(text); bytes.ContainsAny(text, "\r\n") {
		return "", errLayout
	}
	return string(text), nil
}

// stripped copies a value without comments and anchors, in brackets. An alias may
// stand before its anchor in another place, so there must be none.
func stripped(n *yamlv3.Node) (*yamlv3.Node, error) {
	if n.Kind == yamlv3.AliasNode {
		return nil, errLayout
	}
	bare := &yamlv3.Node{Kind: n.Kind, Style: n.Style &^ (yamlv3.LiteralStyle | yamlv3.FoldedStyle), Tag: n.Tag, Value: n.Value}
	if n.Kind != yamlv3.ScalarNode {
		bare.Style |= yamlv3.FlowStyle
	} else if strings.Contains(n.Value, "${{") && bare.Style == 0 {
		bare.Style = yamlv3.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		part, err := stripped(c)
		if err != nil {
			return nil, err
		}
		bare.Content = append(bare.Content, part)
	}
	return bare, nil
}

// simple are texts that mean themselves without quotes, in brackets too.
var simple = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9._/]*$`)

// quoted writes a text, in quotes where it needs them.
func quoted(text string) string {
	switch {
	case simple.MatchString(text) && misreading(text, "", false) == "" && text != "true" && text != "false" && text != "null":
		return text
	case strings.Contains(text, `"`) && !strings.ContainsAny(text, "'\r\n"):
		return "'" + text + "'"
	}
	return strconv.Quote(text)
}
