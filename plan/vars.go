package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readVars gives the value of every variable that the plan declares: from --set,
// else from the last var file that has it, else its default. It is nil when vars
// cannot be understood; a variable whose fault is reported is invalid.
func (c *checker) readVars(root map[string]any, in Inputs) map[string]any {
	declared, ok := root["vars"].(map[string]any)
	if root["vars"] != nil && !ok {
		return nil
	}
	vars := make(map[string]any, len(declared))
	defaults := make(map[string]any, len(declared))
	for _, name := range sortedKeys(declared) {
		at := path{"vars", name}
		if !varName.MatchString(name) {
			c.addKey(at, "use letters, digits and _ only, and no digit first", "%q cannot be the name of a variable", name)
		}
		decl, ok := declared[name].(map[string]any)
		if !ok {
			vars[name] = invalid{}
			continue
		}
		if v, has := decl["default"]; has {
			x := expander{checker: c, literal: true}
			decl["default"] = x.expand(v, at.key("default"))
			vars[name], defaults[name] = decl["default"], decl["default"]
		}
	}
	for i, file := range in.VarFiles {
		c.readVarFile(file, i+1, declared, vars)
	}
	c.readSet(in.Set, declared, defaults, vars)
	for _, name := range sortedKeys(declared) {
		if _, has := vars[name]; !has {
			c.addKey(path{"vars", name}, fmt.Sprintf("give it a default, --set %s=VALUE, or a line in a --var-file", name),
				"the variable %q has no value", name)
			vars[name] = invalid{}
		}
	}
	return vars
}

// readVarFile reads a YAML file of name: value. Faults show no value of it, for
// it may well be a secret.
func (c *checker) readVarFile(file string, order int, declared, vars map[string]any) {
	src, err := readFile(file)
	if err != nil {
		c.add(&source{file: file, order: order}, Pos{File: file}, "", "", "%s", err)
		return
	}
	s, tree, ok := readSource(file, order, src, &c.faults)
	if !ok {
		return
	}
	values, isMap := tree.(map[string]any)
	if !isMap {
		c.add(s, s.valuePos(nil), "", "write one name: value on each line", "expected a mapping of variables, got %s", describeType(tree))
		return
	}
	for _, name := range sortedKeys(values) {
		if _, known := declared[name]; !known {
			c.add(s, s.keyPos(path{name}), name, c.varHint(name, declared), "the plan declares no variable %q", name)
			continue
		}
		vars[name] = values[name]
	}
}

// readSet reads the name=value pairs of the command line.
func (c *checker) readSet(set []string, declared, defaults, vars map[string]any) {
	for _, arg := range set {
		name, text, found := strings.Cut(arg, "=")
		name = strings.TrimSpace(name)
		at := Pos{File: "--set " + cut(name, 60)}
		switch _, known := declared[name]; {
		case !found:
			c.add(nil, at, "", "write --set name=value", "the = and the value are missing")
		case !known:
			c.add(nil, at, "", c.varHint(name, declared), "the plan declares no variable %q", name)
		default:
			v, err := parseSet(text, defaults[name])
			if err != nil {
				c.add(nil, at, "", "", "%s", err)
				v = invalid{}
			}
			vars[name] = v
		}
	}
}

func (c *checker) varHint(name string, declared map[string]any) string {
	if near := c.nearest(name, sortedKeys(declared)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if first, _, dotted := strings.Cut(name, "."); dotted && declared[first] != nil {
		return fmt.Sprintf("give the whole value of %q, or use a --var-file", first)
	}
	if len(declared) == 0 {
		return "it declares none"
	}
	return "it declares " + cut(strings.Join(sortedKeys(declared), ", "), 120)
}

var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// parseSet reads the value of --set as the documentation of Inputs says.
func parseSet(text string, def any) (any, error) {
	switch def := def.(type) {
	case string:
		return text, nil
	case bool:
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("expected true or false as the default is, got %q", text)
		}
		return text == "true", nil
	case int64, float64, json.Number:
		v := plainNumbers(json.Number(text))
		if !json.Valid([]byte(text)) || (v == any(json.Number(text)) && !wholeNumber.MatchString(text)) {
			return nil, fmt.Errorf("expected a number as the default is, got %q", text)
		}
		return v, nil
	case []any, map[string]any:
		v, err := parseFlow(text)
		if err != nil {
			return nil, err
		}
		_, wantList := def.([]any)
		if _, isList := v.([]any); v != nil && (isList != wantList || isScalar(v)) {
			return nil, fmt.Errorf("expected %s as the default is, got %s", describe(def), describe(v))
		}
		return v, nil
	}
	return parseUntyped(text)
}

// parseUntyped reads a value as helm --set does.
func parseUntyped(text string) (any, error) {
	switch {
	case text == "true", text == "false":
		return text == "true", nil
	case text == "null":
		return nil, nil
	case wholeNumber.MatchString(text):
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		return text, nil
	case strings.HasPrefix(text, "["), strings.HasPrefix(text, "{"):
		return parseFlow(text)
	}
	return text, nil
}

// parseFlow reads YAML with the same care as a file.
func parseFlow(text string) (any, error) {
	var f faults
	_, v, ok := readSource("--set", 0, []byte(text), &f)
	if !ok {
		if len(f.list) > 0 {
			return nil, errors.New("the value is not valid YAML: " + f.list[0].Message)
		}
		return nil, errors.New("the value is not valid YAML")
	}
	// helm writes lists as {a,b}, which YAML reads as a mapping of nothing.
	if m, ok := v.(map[string]any); ok && len(m) > 0 {
		empty := true
		for _, x := range m {
			empty = empty && x == nil
		}
		if empty {
			return nil, errors.New("the value is a mapping without values: write a list as [a, b]")
		}
	}
	return v, nil
}

func isScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}
