package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/steps/preflight"
)

const onePlanFile = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: demo}
vars:
  version: {default: "1.0", description: of the chart}
  token: {}
steps:
  - name: app
    helm: {chart: oci://registry.example/app, version: "${{ vars.version }}", values: {token: "${{ vars.token }}"}}
  - name: ready
    needs: [app]
    wait: {resource: deployment/app, for: condition=Available}
`

// kplan runs a command line in a folder with plan.yaml and the given files.
func kplan(t *testing.T, files map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if _, ok := files["plan.yaml"]; !ok {
		require.NoError(t, os.WriteFile("plan.yaml", []byte(onePlanFile), 0o600))
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	var out, errs bytes.Buffer
	code = execute(append([]string{"kplan"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestValidate(t *testing.T) {
	code, stdout, stderr := kplan(t, nil, "validate", "plan.yaml", "--set", "token=x")
	require.Equal(t, []any{0, "plan.yaml: valid, 2 steps\n", ""}, []any{code, stdout, stderr})
}

func TestValidateFaults(t *testing.T) {
	code, stdout, stderr := kplan(t, nil, "validate", "plan.yaml", "--set", "tokn=x")
	require.Equal(t, 2, code)
	require.Empty(t, stdout)
	require.Equal(t, `plan.yaml:6:3: the variable "token" has no value
      token: {}
      ^
  hint: give it a default, --set token=VALUE, or a line in a --var-file
--set tokn: the plan declares no variable "tokn"
  hint: did you mean "token"?
`, stderr)
}

func TestValidateJSON(t *testing.T) {
	code, stdout, stderr := kplan(t, map[string]string{"v.yaml": "token: 1\n"}, "validate", "plan.yaml", "--var-file", "v.yaml", "-o", "json")
	require.Equal(t, []any{0, ""}, []any{code, stderr})
	require.JSONEq(t, `{"file": "plan.yaml", "valid": true, "plan": "demo", "steps": 2, "diagnostics": []}`, stdout)

	code, stdout, stderr = kplan(t, map[string]string{"plan.yaml": "kind: Plan\nkid: 1\n"}, "validate", "plan.yaml", "-o", "json")
	require.Equal(t, []any{2, ""}, []any{code, stderr})
	var v findings.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.False(t, v.Valid)
	require.Len(t, v.Findings, 4)
	last := v.Findings[3]
	require.Equal(t, []any{"plan.yaml", 2, 1, "unknown-field", `unknown field "kid"`}, []any{last.File, last.Line, last.Col, last.Rule, last.Message})
}

// A workflow's annotations and a code scan's results, of the same faults.
func TestValidateForGitHub(t *testing.T) {
	bad := map[string]string{"plan.yaml": onePlanFile + "    need: [app]\n"}
	t.Setenv("GITHUB_WORKSPACE", "")
	code, stdout, stderr := kplan(t, bad, "validate", "plan.yaml", "--set", "token=x", "-o", "github")
	require.Equal(t, []any{2, ""}, []any{code, stderr})
	require.Equal(t, "::error file=plan.yaml,line=13,col=5,title=kplan unknown-field::unknown field \"need\"%0Ahint: did you mean \"needs\"?\n", stdout)

	code, stdout, stderr = kplan(t, bad, "validate", "plan.yaml", "--set", "token=x", "-o", "sarif")
	require.Equal(t, []any{2, ""}, []any{code, stderr})
	require.Contains(t, stdout, `"ruleId": "unknown-field"`)

	code, stdout, stderr = kplan(t, nil, "validate", "plan.yaml", "--set", "token=x", "-o", "github")
	require.Equal(t, []any{0, "", ""}, []any{code, stdout, stderr}, "nothing to say")
}

// What a cluster says of a plan stands beside what the plan says itself; what it
// cannot say is no fault.
func TestValidateCluster(t *testing.T) {
	lab := labtest.ControlPlane(t)
	t.Setenv("KUBECONFIG", lab.Kubeconfig)
	const head = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: demo}\nsteps:\n"
	const good = "- {name: a, apply: {namespace: default, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}}\n"
	const bad = "- {name: b, wait: {resource: unicorn/x, for: create}}\n"

	code, stdout, stderr := kplan(t, map[string]string{"plan.yaml": head + good}, "validate", "plan.yaml", "--cluster")
	require.Equal(t, []any{0, "plan.yaml: valid, 1 step\n", ""}, []any{code, stdout, stderr})

	code, stdout, stderr = kplan(t, map[string]string{"plan.yaml": head + good + bad}, "validate", "plan.yaml", "--cluster")
	require.Equal(t, []any{2, ""}, []any{code, stdout})
	require.Contains(t, stderr, "plan.yaml:6:")
	require.Contains(t, stderr, "unicorn")

	code, stdout, _ = kplan(t, map[string]string{"plan.yaml": head + good + bad}, "validate", "plan.yaml", "--cluster", "-o", "json")
	require.Equal(t, 2, code)
	var v findings.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.False(t, v.Valid)
	require.Len(t, v.Findings, 1)
	require.Equal(t, preflight.Kind, v.Findings[0].Rule)

	t.Setenv("KUBECONFIG", "nothing")
	code, _, stderr = kplan(t, map[string]string{"plan.yaml": head + good}, "validate", "plan.yaml", "--cluster")
	require.NotZero(t, code)
	require.Contains(t, stderr, "hint: ")
}

// A bad command line is told apart from a bad plan by its words only.
func TestValidateUsage(t *testing.T) {
	for _, args := range [][]string{{"validate", "a", "b"}, {"validate", "missing.yaml"}, {"validate", "plan.yaml", "-o", "xml"}, {"graph", "plan.yaml", "-o", "svg"}} {
		code, stdout, stderr := kplan(t, nil, args...)
		require.Equal(t, 2, code, args)
		require.Empty(t, stdout, args)
		require.NotEmpty(t, stderr, args)
	}
}

func TestGraph(t *testing.T) {
	const text = "demo: 2 steps on 2 levels\n1  app    helm\n2  ready  wait  needs app\n"
	code, stdout, stderr := kplan(t, nil, "graph", "plan.yaml", "--set", "token=x", "--webhooks=false")
	require.Equal(t, []any{0, text, ""}, []any{code, stdout, stderr})

	code, stdout, stderr = kplan(t, nil, "graph", "plan.yaml", "--set", "token=x") // its chart is nowhere
	require.Equal(t, []any{0, text}, []any{code, stdout})
	require.Contains(t, stderr, `warning: not all webhooks are shown: step "app": fetching chart oci://registry.example/app`)

	code, stdout, _ = kplan(t, nil, "graph", "plan.yaml", "--set", "token=x", "--webhooks=false", "-o", "mermaid")
	require.Equal(t, 0, code)
	require.True(t, strings.HasPrefix(stdout, "flowchart LR\n"), stdout)

	code, stdout, stderr = kplan(t, nil, "graph", "plan.yaml")
	require.Equal(t, []any{2, ""}, []any{code, stdout})
	require.Contains(t, stderr, `the variable "token" has no value`)
}

// Shell completion knows the variables of the plan that stands on the line.
func TestCompleteInputs(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"validate", "plan.yaml", "--set", ""}, "token=\nversion=\tof the chart\n:6\n"},
		{[]string{"graph", "plan.yaml", "--set", "token="}, ":4\n"},
		{[]string{"graph", "plan.yaml", "-o", ""}, "text\ndot\nmermaid\njson\n:4\n"},
		{[]string{"validate", "plan.yaml", "-o", ""}, "json\nyaml\ngithub\nsarif\n:4\n"},
		{[]string{"graph", ""}, "yaml\nyml\ntar\n:8\n"},
		{[]string{"graph", "plan.yaml", "--var-file", ""}, "yaml\nyml\njson\n:8\n"},
	} {
		code, stdout, _ := kplan(t, nil, append([]string{"__complete"}, c.args...)...)
		require.Equal(t, []any{0, c.want}, []any{code, stdout}, c.args)
	}
}
