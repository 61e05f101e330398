package load_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// folder writes the files of a txtar to a folder.
func folder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(text)).Files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
	}
	return dir
}

const evaluating = `
-- plan.yaml --
` + head + `
vars:
  domain: {default: example.com}
  replicas: {default: 3}
  labels: {default: {team: shop}}
  password: {default: hunter2-hunter2, sensitive: true}
  late: {config_map: {name: c, key: k}}
steps:
  - name: app
    for_each: [web, api]
    apply: {files: ["*.k8s.yaml"], evaluate: true}
  - name: plain
    apply: {files: [a.k8s.yaml]}
  - name: chart
    helm: {chart: oci://r.example/a, values_files: [values.yaml], evaluate: true}
  - name: late
    needs: [app]
    apply: {files: [late.yaml], evaluate: true}
-- a.k8s.yaml --
# ${{ nobody.reads(comments) }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: ${{ each.key }}
  labels: ${{ vars.labels }}
data:
  host: ${{ each.key }}.${{ vars.domain }}
  literal: $${{ github.actor }}
  script: |
    echo "${{ vars.domain }}"
    exit
---
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "${{ each.value }}"}
spec:
  replicas: ${{ vars.replicas + 1 }}
-- values.yaml --
host: ${{ vars.domain }}
password: "p: ${{ vars.password }}"
-- late.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: late}
data: {state: "${{ steps.app.web.state }}", port: "${{ vars.late }}", domain: "${{ vars.domain }}"}
`

// Expressions in files are evaluated for each step that wants it; what they give is
// on the lines where it was.
func TestEvaluate(t *testing.T) {
	dir := folder(t, evaluating)
	p, err := load.File(filepath.Join(dir, "plan.yaml"), load.Options{})
	require.NoError(t, err)
	require.NoError(t, load.CheckFiles(p))
	step := func(name string) plan.Step {
		for _, s := range p.Steps {
			if s.Name == name {
				return s
			}
		}
		t.Fatal(name)
		return plan.Step{}
	}
	text := func(s plan.Step, file string) string { return string(s.Evaluated[filepath.Join(dir, file)]) }

	require.Equal(t, strings.Repeat("\n", 1)+
		`{"apiVersion":"v1","data":{"host":"web.example.com","literal":"${{ github.actor }}","script":"echo \"example.com\"\nexit\n"},`+
		`"kind":"ConfigMap","metadata":{"labels":{"team":"shop"},"name":"web"}}`+
		strings.Repeat("\n", 11)+"--- \n--- \n"+
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":4}}`+"\n", text(step("app[web]"), "a.k8s.yaml"))
	require.Contains(t, text(step("app[api]"), "a.k8s.yaml"), `"api.example.com"`)
	require.Empty(t, step("plain").Evaluated)
	require.Equal(t, "{\"host\":\"example.com\",\"password\":\"p: hunter2-hunter2\"}\n", text(step("chart"), "values.yaml"))
	require.Equal(t, "it is p: (sensitive)", p.Sensitive.Text("it is p: hunter2-hunter2"))

	late := step("late")
	require.Equal(t, []plan.Input{{From: plan.FromConfigMap, Key: plan.KeyRef{Name: "c", Key: "k"}}, {Step: "app[web]"}}, late.Deferred())
	require.Contains(t, text(late, "late.yaml"), `"data":{"domain":"example.com","port":null,"state":null}`)
	bound, err := late.Bind(plan.Inputs{late.Deferred()[0]: "8080", late.Deferred()[1]: "succeeded"})
	require.NoError(t, err)
	require.Contains(t, text(bound, "late.yaml"), `"data":{"domain":"example.com","port":8080,"state":"succeeded"}`)
}

// Faults of expressions are told at their place in the file that they stand in.
func TestEvaluateFaults(t *testing.T) {
	for name, c := range map[string]struct{ files, want string }{
		"unknown": {"-- a.yaml --\nx: 1\n---\n# more\napiVersion: v1\nkind: ${{ vars.kynd }}\n", `a.yaml:5:16: no variable "kynd" is declared`},
		"type":    {"-- a.yaml --\napiVersion: v1\nkind: ${{ vars.kind + 1 }}\n", "a.yaml:2:21: + cannot be used on (string, int)"},
		"syntax":  {"-- a.yaml --\nkind: ${{ vars.kind\n", "a.yaml:1:7: the expression is not closed"},
		"key":     {"-- a.yaml --\ndata:\n  ${{ vars.kind }}: x\n", "a.yaml:2:3: the name of a field cannot have an expression"},
		"part":    {"-- a.yaml --\n'a': \"x ${{ [1] }}\"\n", "a.yaml:1:13: a list cannot be put inside of a text"},
		"needs":   {"-- a.yaml --\nkind: ${{ steps.other.state }}\n", `a.yaml:1:11: the step "app" reads steps.other, but does not need it`},
		"block":   {"-- a.yaml --\ndata:\n  a: |\n    one\n    two ${{ vars.nobody }}\n", `a.yaml:4:18: no variable "nobody" is declared`},
		"YAML":    {"-- a.yaml --\na: [\n", "a.yaml:1:1: did not find expected node content"},
		"empty":   {"-- a.yaml --\n\n-- b.yaml --\na: ${{ vars.nobody }}\n", `b.yaml:1:13: no variable "nobody" is declared`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, "-- plan.yaml --\n"+head+"\nvars: {kind: {default: ConfigMap}}\nsteps:\n"+
				"- {name: other, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}}\n"+
				"- {name: app, apply: {files: ['*.yaml'], evaluate: true}}\n"+c.files)
			_ = os.Rename(filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "plan.yml"))
			t.Chdir(dir)
			_, err := load.File("plan.yml", load.Options{})
			ds, is := errors.AsType[document.Diagnostics](err)
			require.True(t, is, "%v", err)
			require.Len(t, ds, 1, "%v", err)
			require.Contains(t, ds[0].String(), c.want)
		})
	}
}
