package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/schema"
)

// compile gives the schema to a validator that is not kplan's.
func compile(t *testing.T, src []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat() // also that times are times
	require.NoError(t, c.AddResource("x.schema.json", doc))
	s, err := c.Compile("x.schema.json")
	require.NoError(t, err)
	return s
}

// instance reads YAML as the validator wants it.
func instance(t *testing.T, src []byte) (any, error) {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(src, &tree); err != nil {
		return nil, err
	}
	b, err := json.Marshal(named(tree))
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
}

// named gives all keys as text: an editor knows no others.
func named(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = named(value)
		}
		return m
	case map[string]any:
		for key, value := range v {
			v[key] = named(value)
		}
	case []any:
		for i, item := range v {
			v[i] = named(item)
		}
	}
	return v
}

// archives are the test plans, or fleets, of a package.
func archives(t *testing.T, of string) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("../" + of + "/testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]*txtar.Archive{}
	for _, f := range files {
		a, err := txtar.ParseFile(f)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(f), ".txtar")] = a
	}
	return all
}

func file(a *txtar.Archive, name string) ([]byte, bool) {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return nil, false
	}
	return a.Files[i].Data, true
}

// unseenInFleets are those of fleets.
var unseenInFleets = map[string]string{
	"fault_waves waves[0]":  "a schema does not know which wave is the last",
	"fault_fields waves[2]": "a schema does not know which wave is the last",
}

// Every fleet that kplan takes, the schema takes.
func TestGoodFleets(t *testing.T) {
	s := compile(t, schema.Fleet)
	n := 0
	for name, a := range archives(t, "fleet/load") {
		if _, faults := file(a, "diagnostics"); faults {
			continue
		}
		src, ok := file(a, "fleet.yaml")
		require.True(t, ok)
		v, err := instance(t, src)
		require.NoError(t, err)
		require.NoError(t, s.Validate(v), name)
		n++
	}
	require.NotZero(t, n)
}

// Every plan of the repository that kplan takes, the schema takes.
func TestGoodPlans(t *testing.T) {
	s := compile(t, schema.Plan)
	plans := map[string][]byte{}
	for name, a := range archives(t, "plan/load") {
		if _, faults := file(a, "diagnostics"); !faults {
			for _, f := range a.Files {
				if bytes.HasPrefix(f.Data, []byte("apiVersion: kplan.dev/")) {
					plans[name+"/"+f.Name] = f.Data
				}
			}
		}
	}
	for _, pattern := range []string{"../examples/*/*.yaml", "../examples/*/*/*.yaml", "../lab/*/plan.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			if bytes.Contains(src, []byte("\nkind: Plan\n")) || bytes.HasPrefix(src, []byte("kind: Plan\n")) {
				plans[f] = src
			}
		}
	}
	require.Greater(t, len(plans), 8)
	for name, src := range plans {
		t.Run(name, func(t *testing.T) {
			v, err := instance(t, src)
			require.NoError(t, err)
			require.NoError(t, s.Validate(v))
		})
	}
}

// structural are the faults that a schema can see: it must refuse each of them at
// its place.
var structural = []document.Code{document.CodeUnknownField, document.CodeMissingField, document.CodeWrongType, document.CodeUnknownValue}

// unseen are structural faults that the schema does not see, each with the
// reason.
var unseen = map[string]string{
	"fault_bool_name steps[0].name":                 "editors read YAML 1.2, where y is text",
	"fault_bool_name steps[1].needs[0]":             "editors read YAML 1.2, where y is text",
	"fault_for_each_long steps[1].for_each.paralel": "in may be an item whose value is an expression",
}

// Every structural fault that kplan finds in the broken plans and fleets, the schema finds.
func TestBrokenPlans(t *testing.T) {
	require.Greater(t, broken(t, schema.Plan, "plan/load", "plan.yaml", func(src []byte) error {
		_, err := load.Parse("plan.yaml", src, load.Options{})
		return err
	}, unseen), 30)
}

func TestBrokenFleets(t *testing.T) {
	require.Greater(t, broken(t, schema.Fleet, "fleet/load", "fleet.yaml", func(src []byte) error {
		_, err := fleetload.Parse("fleet.yaml", src)
		return err
	}, unseenInFleets), 30)
}

// broken holds a schema against the faults of files of a package, and counts those that it
// found.
func broken(t *testing.T, src []byte, of, name string, parse func([]byte) error, unseen map[string]string) (checked int) {
	t.Helper()
	s := compile(t, src)
	met := map[string]bool{}
	for archive, a := range archives(t, of) {
		src, ok := file(a, name)
		if !ok {
			continue
		}
		faults, _ := errors.AsType[document.Diagnostics](parse(src))
		faults = slices.DeleteFunc(faults, func(d document.Diagnostic) bool {
			return !slices.Contains(structural, d.Code) || d.File != name
		})
		v, err := instance(t, src)
		if err != nil || len(faults) == 0 {
			continue // an editor says what YAML is wrong
		}
		refused := places(s.Validate(v))
		for _, d := range faults {
			at := pointer(d.Path)
			id := archive + " " + d.Path
			if computed(v, at) {
				continue // the value of an expression is not known to an editor
			}
			if why, ok := unseen[id]; ok {
				require.NotEmpty(t, why)
				met[id] = true
				continue
			}
			checked++
			if !refused[at] && !refused[at[:max(0, strings.LastIndex(at, "/"))]] {
				t.Errorf("the schema does not see it: %q\n%s\nit refuses %v", id, d, refused)
			}
		}
	}
	for id := range unseen {
		require.True(t, met[id], "%s is no fault any more", id)
	}
	return checked
}

// computed tells whether an expression gives the value at a place, or one that it
// is in.
func computed(v any, at string) bool {
	for _, name := range append(strings.Split(at, "/")[1:], "") {
		if text, ok := v.(string); ok {
			return strings.Contains(text, "${{")
		}
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i < len(of) {
				v = of[i]
			}
		}
	}
	return false
}

// places are where the validator found something wrong, as JSON pointers.
func places(err error) map[string]bool {
	all := map[string]bool{}
	var collect func(*jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			at := ""
			for _, name := range e.InstanceLocation {
				at += "/" + name
			}
			all[at] = true
		}
		for _, c := range e.Causes {
			collect(c)
		}
	}
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		collect(e)
	}
	return all
}

// pointer turns a path of fields, steps[0].helm["a.b"], into /steps/0/helm/a.b.
func pointer(path string) string {
	at := ""
	for path != "" {
		switch {
		case strings.HasPrefix(path, `["`):
			quoted, err := strconv.QuotedPrefix(path[1:])
			if err != nil {
				return at
			}
			name, _ := strconv.Unquote(quoted)
			at += "/" + name
			path = strings.TrimPrefix(path[1+len(quoted):], "]")
		case path[0] == '[':
			i := strings.IndexByte(path, ']')
			at += "/" + path[1:i]
			path = path[i+1:]
		default:
			path = strings.TrimPrefix(path, ".")
			i := strings.IndexAny(path, ".[")
			if i < 0 {
				i = len(path)
			}
			at += "/" + path[:i]
			path = path[i:]
		}
	}
	return at
}
