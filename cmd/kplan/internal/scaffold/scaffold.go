// Package scaffold writes plans to start from: one that explains itself, and one
// of the Helm releases that a cluster has.
//
// It reads no cluster and writes no files.
package scaffold

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/lint/secret"
	"github.com/kplan-dev/kplan/steps/analyze"
)

//go:embed blank.yaml
var blank string

// Blank is a plan with comments and a step of each common kind. It is valid as it
// is.
func Blank(schema string) []byte { return []byte(modeline(schema) + blank) }

// modeline tells editors where the schema is, as a path relative to the plan or as
// an address; "" is none.
func modeline(schema string) string {
	if schema == "" {
		return ""
	}
	return "# yaml-language-server: $schema=" + schema + "\n"
}

// label makes a name that a plan or step can have; "" when nothing is left.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// Releases is a plan with a helm step for each release, and the names of the
// variables that stand for values which look like secrets. Where a chart comes
// from is not known: its repo is left to be filled in.
func Releases(name, schema string, releases []analyze.Release) (text []byte, secrets []string, err error) {
	w := writer{used: map[string]bool{}}
	for _, r := range releases {
		w.names = append(w.names, w.stepName(r))
	}
	var list []*yaml.Node
	for i, r := range releases {
		step, err := w.step(i, r)
		if err != nil {
			return nil, nil, fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err)
		}
		list = append(list, step)
	}
	root := mapping(
		scalar("apiVersion"), scalar(plan.APIVersion),
		scalar("kind"), scalar(plan.PlanKind),
		scalar("metadata"), mapping(scalar("name"), scalar(cmp.Or(label(name), "releases")), scalar("description"), scalar("the Helm releases of a cluster")),
	)
	if len(w.vars) > 0 {
		key := scalar("vars")
		key.HeadComment = "Values that look like secrets. Give each with --set NAME=VALUE, --var-file FILE, env: VARIABLE or secret: {…}."
		root.Content = append(root.Content, key, mapping(w.vars...))
	}
	root.Content = append(root.Content, scalar("steps"), &yaml.Node{Kind: yaml.SequenceNode, Content: list})
	var b bytes.Buffer
	b.WriteString(modeline(schema))
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), w.secrets, e.Close()
}

// writer makes the steps of a plan.
type writer struct {
	names   []string // of the steps, by release
	used    map[string]bool
	vars    []*yaml.Node // names and declarations
	secrets []string
}

// stepName is the release's name, with its namespace when that is taken.
func (w *writer) stepName(r analyze.Release) string {
	name := label(r.Name)
	if name == "" || w.used[name] {
		name = label(r.Namespace + "-" + r.Name)
	}
	return w.unique(name, "-")
}

// unique is a name that was not given yet.
func (w *writer) unique(name, sep string) string {
	try := name
	for i := 2; w.used[try]; i++ {
		try = name + sep + strconv.Itoa(i)
	}
	w.used[try] = true
	return try
}

func (w *writer) step(i int, r analyze.Release) (*yaml.Node, error) {
	step := mapping(scalar("name"), scalar(w.names[i]))
	if r.Status != "deployed" {
		step.HeadComment = "The release was not deployed but " + words.Line(r.Status) + " when this was written."
	}
	if len(r.Needs) > 0 {
		needs := &yaml.Node{Kind: yaml.SequenceNode}
		for _, n := range r.Needs {
			need := scalar(w.names[n.Index])
			need.LineComment = n.Why
			needs.Content = append(needs.Content, need)
		}
		step.Content = append(step.Content, scalar("needs"), needs)
	}
	helm := mapping()
	add := func(name string, value *yaml.Node) { helm.Content = append(helm.Content, scalar(name), value) }
	if r.Name != w.names[i] {
		add("release", scalar(r.Name))
	}
	add("chart", scalar(r.Chart))
	repo := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", LineComment: "FILL IN: the address of the chart's repository; of a registry, write chart: oci://… and no repo"}
	if len(r.Sources) > 0 {
		repo.LineComment += ". The chart names " + words.Line(strings.Join(r.Sources, ", "))
	}
	add("repo", repo)
	add("version", scalar(r.Version))
	add("namespace", scalar(r.Namespace))
	add("create_namespace", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	if len(r.Values) > 0 {
		var values yaml.Node
		if err := values.Encode(w.values(r.Values, w.names[i], nil)); err != nil {
			return nil, err
		}
		add("values", &values)
	}
	step.Content = append(step.Content, scalar("helm"), helm)
	return step, nil
}

// values are those of a release as a plan writes them, with expressions in place
// of what looks like a secret.
func (w *writer) values(v any, step string, path []string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		name, _ := v["name"].(string)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clone(path), k)
			if k == "value" && name != "" { // an environment variable
				at = append(slices.Clone(path), name)
			}
			out[k] = w.values(v[k], step, at)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = w.values(v[i], step, path)
		}
		return out
	case float64:
		if len(path) > 0 && secret.IsLikelyNumber(path[len(path)-1]) {
			return w.expression(step, path)
		}
		// JSON has one kind of number, and YAML would write 1e+06 for a million.
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	case string:
		if secret.IsLikely(path, v) {
			return w.expression(step, path)
		}
		return strings.ReplaceAll(v, "${{", "$${{")
	}
	return v
}

// notInNames are the characters that names of variables do not have here.
var notInNames = regexp.MustCompile(`[^a-zA-Z0-9]`)

// expression declares a variable for the value at a path of a step, and refers to
// it.
func (w *writer) expression(step string, path []string) string {
	name := notInNames.ReplaceAllString(step+"_"+strings.Join(path, "_"), "_")
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	name = w.unique(name, "_")
	w.secrets = append(w.secrets, name)
	w.vars = append(w.vars, scalar(name), mapping(
		scalar("description"), scalar(words.Line(strings.Join(path, "."))+" of "+step),
		scalar("sensitive"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"},
	))
	return "${{ vars." + name + " }}"
}

// mapping has keys and their values in turn.
func mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: content}
}

// scalar is a text, which the encoder quotes where YAML would take it for
// something else.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
