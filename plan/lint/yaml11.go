package lint

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
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
func checkYAML(l *linter) {
	for _, r := range l.values() {
		visit(r.node, r.name, r.at, func(n *yamlv3.Node, name string, at []any, isKey bool) {
			if n.Kind != yamlv3.ScalarNode || n.Style != 0 || n.Value == "" || len(n.Value) > 40 {
				return
			}
			means := oddity(n.Value, name, isKey)
			if means == "" {
				return
			}
			what := "value"
			if isKey {
				what = "key"
			}
			place := spot{Place: r.text.PlaceOf(n, at...), text: r.text}
			if !isKey && isSecretName(name) {
				place.secret = true
				l.add(Warning, nil, place, "quote it", "the %s is %s", what, kindOfMeaning(means))
				return
			}
			hint := fmt.Sprintf("quote it to mean the text: %q", n.Value)
			if oddBool.MatchString(n.Value) {
				hint += "; or write " + means
			}
			l.add(Warning, nil, place, hint, "the %s %s is %s", what, n.Value, means)
		})
	}
}

// kindOfMeaning says what a value is without the value.
func kindOfMeaning(means string) string {
	if means == "true" || means == "false" {
		return "a boolean"
	}
	return "a number, not text"
}

// oddity says what a plain scalar means if that is not what it seems; else "".
func oddity(value, name string, isKey bool) string {
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
	doc, err := yaml.YAMLToJSON([]byte("v: " + value))
	if err != nil {
		return "too large a number to be read"
	}
	var read struct {
		V json.RawMessage `json:"v"`
	}
	if err := json.Unmarshal(doc, &read); err != nil || len(read.V) == 0 || read.V[0] == '"' || string(read.V) == value {
		return ""
	}
	return "the number " + string(read.V)
}
