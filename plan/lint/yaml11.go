package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint/secret"
)

var (
	// oddBool are the booleans of YAML 1.1 that do not look like one.
	oddBool = regexp.MustCompile(`^(y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF)$`)
	// oddNumber are numbers that do not look like what they mean.
	oddNumber = regexp.MustCompile(`^[-+]?(0[0-9_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0b[01_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|[0-9]+[eE][-+]?[0-9]+)$`)
	// rounded are numbers that look else as versions.
	rounded = regexp.MustCompile(`^[0-9]+\.([0-9]*0|[0-9]+[eE][-+]?[0-9]+)$`)
	// base60 are numbers to some readers of YAML 1.1.
	base60 = regexp.MustCompile(`^[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	// versioned are names of values that are versions.
	versioned = regexp.MustCompile(`(?i)(version|tag|release|revision|commit|sha|ref)$`)
	// octal are names of values that are meant to be octal.
	octal = regexp.MustCompile(`(?i)mode$|^umask$`)
)

// checkYAML looks for plain scalars that mean something else than they seem to.
func checkYAML(p *pass) {
	seen := map[*yamlv3.Node]bool{}
	for _, r := range slices.Concat(p.written, p.filed, p.manifests()) {
		if r.object {
			p.checkTexts(r, seen)
		}
		visit(r.node, r.name, r.at, func(n *yamlv3.Node, name string, at []any, isKey bool) {
			if seen[n] || !isPlainScalar(n) {
				return
			}
			means := misreading(n.Value, name, isKey)
			if means == "" {
				return
			}
			what := "value"
			if isKey {
				what = "key"
			}
			place := location{Place: r.text.PlaceOf(n, at...), text: r.text}
			if !isKey && secret.Named(name) {
				place.secret = true
				p.add(finding.Warning, nil, place, "quote it", "the %s is %s", what, kindOfMeaning(means))
				return
			}
			hint := fmt.Sprintf("quote it to mean the text: %q", n.Value)
			if oddBool.MatchString(n.Value) {
				hint += "; or write " + means
			}
			p.add(finding.Warning, nil, place, hint, "the %s %s is %s", what, n.Value, means)
		})
	}
}

// isPlainScalar reports whether a node is a short text without quotes.
func isPlainScalar(n *yamlv3.Node) bool {
	return n.Kind == yamlv3.ScalarNode && n.Style == 0 && n.Value != "" && len(n.Value) <= 40
}

// checkTexts looks for values that are not text in fields that take text only, and
// notes them.
func (p *pass) checkTexts(r root, seen map[*yamlv3.Node]bool) {
	check := func(what string, n *yamlv3.Node, name string, at []any) {
		if seen[n] || !isPlainScalar(n) || n.ShortTag() == "!!null" {
			return
		}
		means := reading(n.Value)
		if means == "" {
			return
		}
		seen[n] = true
		place := location{Place: r.text.PlaceOf(n, at...), text: r.text}
		if secret.Named(name) {
			place.secret = true
			p.add(finding.Error, nil, place, "quote it", "%s takes text, and this is %s", what, strings.TrimSuffix(kindOfMeaning(means), ", not text"))
			return
		}
		p.add(finding.Error, nil, place, fmt.Sprintf("quote it to mean the text: %q", n.Value), "%s takes text, and %s is %s", what, n.Value, means)
	}
	kind := get(r.node, "kind")
	if kind != nil && kind.Value == "ConfigMap" {
		pairs(get(r.node, "data"), func(key, v *yamlv3.Node) {
			check("the data of a ConfigMap", v, key.Value, append(slices.Clip(r.at), "data", key.Value))
		})
	}
	textFields(r.node, r.at, check)
}

// textFields calls f for the labels, annotations and environment below a node.
func textFields(n *yamlv3.Node, at []any, f func(what string, n *yamlv3.Node, name string, at []any)) {
	each := func(what string, of *yamlv3.Node, at ...any) {
		pairs(of, func(key, v *yamlv3.Node) { f(what, v, key.Value, append(slices.Clip(at), key.Value)) })
	}
	pairs(n, func(key, v *yamlv3.Node) {
		at := append(slices.Clip(at), key.Value)
		switch key.Value {
		case "metadata":
			each("a label", get(v, "labels"), append(slices.Clip(at), "labels")...)
			each("an annotation", get(v, "annotations"), append(slices.Clip(at), "annotations")...)
			return
		case "matchLabels":
			each("a label", v, at...)
			return
		case "env":
			for i, e := range items(v) {
				if name, value := get(e, "name"), get(e, "value"); name != nil && value != nil {
					f("an environment variable", value, name.Value, append(slices.Clip(at), i, "value"))
				}
			}
			return
		}
		textFields(v, at, f)
	})
	for i, item := range items(n) {
		textFields(item, append(slices.Clip(at), i), f)
	}
}

// parsed is what readers of YAML 1.1 make of a plain scalar, as JSON.
func parsed(value string) (json.RawMessage, error) {
	doc, err := yaml.YAMLToJSON([]byte("v: " + value))
	if err != nil {
		return nil, err
	}
	var read struct {
		V json.RawMessage `json:"v"`
	}
	err = json.Unmarshal(doc, &read)
	return read.V, err
}

// reading says what a plain scalar is if it is no text; else "".
func reading(value string) string {
	v, err := parsed(value)
	switch {
	case err != nil || len(v) == 0 || strings.ContainsAny(string(v[:1]), `"[{n`):
		return ""
	case value == "true", value == "false":
		return "a boolean"
	case v[0] == 't', v[0] == 'f':
		return string(v)
	}
	return cmp.Or(number(value), "a number")
}

// kindOfMeaning says what a value is without the value.
func kindOfMeaning(means string) string {
	if means == "true" || means == "false" {
		return "a boolean"
	}
	return "a number, not text"
}

// misreading says what a plain scalar means if that is not what it seems; else "".
func misreading(value, name string, isKey bool) string {
	switch {
	case oddBool.MatchString(value):
		return strconv.FormatBool(strings.ContainsAny(value[:1], "yY") || strings.EqualFold(value, "on"))
	case base60.MatchString(value):
		return "text here, but a number in base 60 to others"
	case isKey:
		return ""
	case octal.MatchString(name) && !strings.ContainsAny(value, "_eExX"):
		return ""
	case oddNumber.MatchString(value), versioned.MatchString(name) && rounded.MatchString(value):
		return number(value)
	}
	return ""
}

// number says which number a plain scalar is; "" when it is none, or looks the same.
func number(value string) string {
	v, err := parsed(value)
	switch {
	case err != nil:
		return "too large a number to be read"
	case len(v) == 0 || v[0] == '"' || string(v) == value:
		return ""
	}
	return "the number " + string(v)
}
