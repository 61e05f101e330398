package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/schema"
)

// candidate is the version whose contract may still change: the one that comes next.
const candidate = "v0.1"

// compat are the folders of what each version wrote, see testdata/compat/README.md.
func compat(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../../testdata/compat/v*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	return dirs
}

// kept are files of all versions, by a pattern; each version has one at least.
func kept(t *testing.T, pattern string) []string {
	t.Helper()
	var all []string
	for _, dir := range compat(t) {
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.NotEmpty(t, files, "%s has no %s", dir, pattern)
		all = append(all, files...)
	}
	return all
}

// TestCompatPlans reads the plans of all versions. They are valid still.
func TestCompatPlans(t *testing.T) {
	for _, file := range kept(t, "plans/*/plan.yaml") {
		out, err := command(t, "validate", file).CombinedOutput()
		require.NoError(t, err, "%s: %s", file, out)
	}
}

// TestCompatRuns replays the recorded runs of all versions, and writes every report of them.
func TestCompatRuns(t *testing.T) {
	for _, file := range append(kept(t, "runs/*.jsonl"), kept(t, "history/.kplan/runs/*.jsonl")...) {
		dir := t.TempDir()
		args := []string{"replay", file, "--progress", "plain"}
		for _, kind := range []string{"html", "junit", "markdown", "json", "otlp", "prometheus"} {
			args = append(args, "--report", kind+"="+filepath.Join(dir, kind))
		}
		out, err := command(t, args...).CombinedOutput()
		require.NoError(t, err, "%s: %s", file, out)
		require.Contains(t, string(out), "plan ", file)
		b, err := os.ReadFile(filepath.Join(dir, "json"))
		require.NoError(t, err)
		var report struct{ Plan, State string }
		require.NoError(t, json.Unmarshal(b, &report))
		require.NotEmpty(t, report.Plan, file)
		require.NotEqual(t, "pending", report.State, file)
	}
}

// TestCompatHistory finds the runs that all versions kept beside their plans.
func TestCompatHistory(t *testing.T) {
	for _, file := range kept(t, "history/plan.yaml") {
		out, err := command(t, "history", file, "--from", "local", "-o", "json").CombinedOutput()
		require.NoError(t, err, "%s: %s", file, out)
		require.Contains(t, string(out), "20261122-161030-ab12cd")
	}
}

// TestCompatBundles reads the bundles of all versions.
func TestCompatBundles(t *testing.T) {
	for _, file := range kept(t, "bundles/*.tar") {
		out, err := command(t, "bundle", "inspect", file).CombinedOutput()
		require.NoError(t, err, "%s: %s", file, out)
		require.Contains(t, string(out), "settings.yaml")
	}
}

// TestCompatContract holds that what a version promised is still true: no line of its
// contract is missing from today's.
func TestCompatContract(t *testing.T) {
	now := contract(t)
	for _, dir := range compat(t) {
		file := filepath.Join(dir, "contract.txt")
		if *update && filepath.Base(dir) == candidate {
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644))
		}
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		then := strings.Split(strings.TrimSpace(string(b)), "\n")
		require.Greater(t, len(then), 500, "the contract is whole")
		for _, line := range then {
			if _, found := slices.BinarySearch(now, line); !found {
				t.Errorf("%s promised, and it is no more so: %s", filepath.Base(dir), line)
			}
		}
	}
}

// contract is what today's kplan promises, a line each, in order.
func contract(t *testing.T) []string {
	t.Helper()
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, s := range []struct {
		name string
		text []byte
	}{{"plan", schema.Plan}, {"event", schema.Events}} {
		var root node
		require.NoError(t, json.Unmarshal(s.text, &root))
		root.walk(s.name, root.Definitions, nil, add)
	}
	for name, code := range map[string]int{
		"done": exitDone, "failed": exitFailed, "usage": exitUsage, "changes": exitChanges, "timeout": exitTimeout, "locked": exitLocked, "refused": exitRefused,
	} {
		add("exit code %s %d", name, code)
	}
	flags(newRoot(newApp("kplan", strings.NewReader(""), io.Discard, io.Discard)), add)
	outputs(t, add)
	for _, dir := range []string{"webhook", "webhook/hold", "webhook/proxy"} {
		exported(t, dir, add)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// node is what the contract keeps of a JSON Schema.
type node struct {
	Type                 any             `json:"type"`
	Default              any             `json:"default"`
	Const                any             `json:"const"`
	Enum                 []any           `json:"enum"`
	Ref                  string          `json:"$ref"`
	Required             []string        `json:"required"`
	Properties           map[string]node `json:"properties"`
	Items                *node           `json:"items"`
	AdditionalProperties any             `json:"additionalProperties"`
	AllOf                []node          `json:"allOf"`
	AnyOf                []node          `json:"anyOf"`
	OneOf                []node          `json:"oneOf"`
	Definitions          map[string]node `json:"definitions"`
}

// walk adds the types that a field takes, its default, its values, and the fields below it.
// A definition within itself is told of once.
func (n node) walk(path string, defs map[string]node, within []string, add func(string, ...any)) {
	for _, t := range list(n.Type) {
		add("%s is %v", path, t)
	}
	if n.Default != nil {
		add("%s defaults to %s", path, compact(n.Default))
	}
	if n.Const != nil {
		add("%s may be %s", path, compact(n.Const))
	}
	for _, v := range n.Enum {
		add("%s may be %s", path, compact(v))
	}
	if name := strings.TrimPrefix(n.Ref, "#/definitions/"); n.Ref != "" && !slices.Contains(within, name) {
		defs[name].walk(path, defs, append(slices.Clone(within), name), add)
	}
	for name, p := range n.Properties {
		add("%s.%s", path, name)
		// A plan may go on without a field, and who reads events may count on one.
		switch needed := slices.Contains(n.Required, name); {
		case strings.HasPrefix(path, "plan") && !needed:
			add("%s.%s may be left out", path, name)
		case strings.HasPrefix(path, "event") && needed:
			add("%s.%s is always there", path, name)
		}
		p.walk(path+"."+name, defs, within, add)
	}
	if n.Items != nil {
		n.Items.walk(path+"[]", defs, within, add)
	}
	if m, is := n.AdditionalProperties.(map[string]any); is {
		var each node
		if b, err := json.Marshal(m); err == nil && json.Unmarshal(b, &each) == nil {
			each.walk(path+".*", defs, within, add)
		}
	}
	for _, part := range slices.Concat(n.AllOf, n.AnyOf, n.OneOf) {
		part.walk(path, defs, within, add)
	}
}

func list(v any) []any {
	if all, is := v.([]any); is {
		return all
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// flags adds commands with their flags and what these are without being given.
func flags(cmd *cobra.Command, add func(string, ...any)) {
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return
	}
	add("command %s", cmd.CommandPath())
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			add("command %s --%s %s", cmd.CommandPath(), f.Name, f.Value.Type())
		}
	})
	for _, sub := range cmd.Commands() {
		flags(sub, add)
	}
}

// outputs adds the fields of what commands write as JSON.
func outputs(t *testing.T, add func(string, ...any)) {
	t.Helper()
	at := filepath.Join("..", "..", "testdata", "compat", candidate)
	for name, args := range map[string][]string{
		"history":  {"history", filepath.Join(at, "history", "plan.yaml"), "--from", "local", "-o", "json"},
		"validate": {"validate", filepath.Join(at, "plans", "eso", "plan.yaml"), "-o", "json"},
		"version":  {"version", "-o", "json"},
		"graph":    {"graph", filepath.Join(at, "plans", "eso", "plan.yaml"), "-o", "json"},
	} {
		b, err := command(t, args...).Output()
		require.NoError(t, err, "%v", args)
		keys(t, "output of "+name, b, add)
	}
	for _, run := range kept(t, "runs/*.jsonl") {
		file := filepath.Join(t.TempDir(), "r.json")
		out, err := command(t, "replay", run, "--report", "json="+file).CombinedOutput()
		require.NoError(t, err, string(out))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		keys(t, "report json", b, add)
	}
}

// keys adds the fields of a JSON text. Those of mappings that people name are left out.
func keys(t *testing.T, path string, text []byte, add func(string, ...any)) {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal(text, &v), "%s: %s", path, text)
	var walk func(string, any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				add("%s.%s", path, name)
				if name != "counts" && name != "outputs" {
					walk(path+"."+name, v[name])
				}
			}
		case []any:
			for _, e := range v {
				walk(path+"[]", e)
			}
		}
	}
	walk(path, v)
}

// exported adds what a package exports: functions and methods with their signatures, types,
// constants, variables, and fields of structs.
func exported(t *testing.T, dir string, add func(string, ...any)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		require.NoError(t, err)
		ast.FileExports(f)
		text := func(n any) string {
			var b strings.Builder
			require.NoError(t, printer.Fprint(&b, set, n))
			return strings.Join(strings.Fields(b.String()), " ")
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				d.Body = nil
				add("go %s: %s", dir, text(d))
			case *ast.GenDecl:
				for _, s := range d.Specs {
					exportedSpec(dir, s, text, add)
				}
			}
		}
	}
}

func exportedSpec(dir string, s ast.Spec, text func(any) string, add func(string, ...any)) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		add("go %s: type %s", dir, s.Name)
		if fields, is := s.Type.(*ast.StructType); is {
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					add("go %s: type %s has %s %s", dir, s.Name, name, text(field.Type))
				}
			}
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			add("go %s: value %s", dir, name)
		}
	}
}
