package load_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
)

const oneStep = "steps: [{name: a, wait: {resource: pod/x, for: create}}]\n"

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

// The text of a deferred variable is held to what the plan says of the variable.
func TestLateText(t *testing.T) {
	p, err := load.Parse("p.yaml", []byte(head+`steps:
- {name: token, helm: {chart: ./c, values: {is: "${{ vars.token }}"}}}
- {name: port, helm: {chart: ./c, values: {is: "${{ vars.port }}"}}}
- {name: region, helm: {chart: ./c, values: {is: "${{ vars.region }}"}}}
- {name: hosts, helm: {chart: ./c, values: {is: "${{ vars.hosts }}"}}}
vars:
  token: {secret: {name: creds, key: token}}
  port: {secret: {name: creds, key: port}, type: integer, required: true}
  region: {config_map: {name: settings, key: region}, allowed: [eu, us]}
  hosts: {config_map: {name: settings, key: hosts}, type: list, required: true}
`), load.Options{Env: noEnv})
	require.NoError(t, err)
	for _, c := range []struct {
		name, text string
		want       any
		fault      string
	}{
		{"token", "s3cret\n", "s3cret\n", ""},
		{"port", "8443\n", int64(8443), ""},
		{"port", "s3cret", nil, "expected a whole number, got other text"},
		{"region", "eu", "eu", ""},
		{"region", "asia", "asia", "asia is none of the allowed values"},
		{"hosts", "[a, b]", []any{"a", "b"}, ""},
		{"hosts", "[]", []any{}, `the required variable "hosts" is empty`},
		{"hosts", "[a", nil, "the value is not valid YAML: did not find expected ',' or ']'"},
	} {
		i := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Name == c.name })
		asks := p.Steps[i].Deferred()
		require.Len(t, asks, 1)
		step, err := p.Steps[i].Bind(plan.Inputs{asks[0]: c.text})
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault)
			continue
		}
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, step.Helm.Values["is"])
	}
	require.Equal(t, "is (sensitive) in eu", p.Sensitive.Text("is s3cret in eu"))
}

// Every value that a sensitive variable could have had is hidden, also one that
// another one wins over.
// What a fleet gives for a cluster wins over what the plan says, and --set wins over it.
func TestFleetVars(t *testing.T) {
	text := []byte(head + oneStep + `vars:
  region: {default: eu, env: REGION}
  size: {type: integer, default: 1}
`)
	env := func(string) (string, bool) { return "asia", true }
	p, err := load.Parse("p.yaml", text, load.Options{Env: env, Fleet: map[string]any{"region": "us", "size": int64(3)}, Set: []string{"size=5"}})
	require.NoError(t, err)
	require.Equal(t, []any{"us", plan.SourceFleet}, []any{p.Variables[0].Value, p.Variables[0].Source})
	require.Equal(t, []any{int64(5), plan.SourceSet}, []any{p.Variables[1].Value, p.Variables[1].Source})

	_, err = load.Parse("p.yaml", text, load.Options{Env: noEnv, Fleet: map[string]any{"regoin": "us", "size": "many"}})
	require.ErrorContains(t, err, `vars of the fleet: regoin: the plan declares no variable "regoin"`)
	require.ErrorContains(t, err, `did you mean "region"?`)
	require.ErrorContains(t, err, "vars of the fleet: size: ")
}

func TestSensitive(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("v.yaml", []byte("token: {a: [from-file]}\nplain: plain-text\n"), 0o600))
	p, err := load.Parse("p.yaml", []byte(head+oneStep+`vars:
  token: {default: from-default, sensitive: true, env: TOKEN, type: any}
  plain: {default: "", secret: {name: creds, key: token}, sensitive: false}
`), load.Options{
		VarFiles: []string{"v.yaml"}, Set: []string{"token=from-set", "token=from-last-set"},
		Env: func(name string) (string, bool) { return "from-env-" + name, true },
	})
	require.NoError(t, err)
	require.Equal(t, "(sensitive) (sensitive) (sensitive) (sensitive) (sensitive) plain-text",
		p.Sensitive.Text("from-default from-env-TOKEN from-file from-set from-last-set plain-text"))
	v := p.Variables[1]
	require.Equal(t, "from-last-set", v.Value)
	require.Equal(t, redact.Mark, v.Shown())
}

// The variables are read whatever else is wrong; what is wrong with them is told.
func TestLoadVars(t *testing.T) {
	t.Chdir(t.TempDir())
	for src, want := range map[string]struct {
		vars  string
		fault string
	}{
		head + "vars: {a: {default: 1}}\nsteps: 5\nextra: 1\n":                 {"a=1 ", ""},
		"vars: {a: {default: 1}, b: {}}\n":                                     {"a=1 b=<nil>! ", `p.yaml:1:25: the variable "b" has no value`},
		"vars: {a: {default: 1, typo: 2}, b: {env: PATH}}\n":                   {"a=1 b=/bin ", `p.yaml:1:24: unknown field "typo"`},
		"vars: {a: {default: \"${{ x }}\"}, b: 5, c: {type: x, default: 1}}\n": {"a=<nil>! b=<nil>! c=1 ", "p.yaml:1:26: the default of a variable cannot have expressions"},
		"steps: []\n":   {"", ""},
		"vars: [a]\n":   {"", "p.yaml:1:7: expected a mapping, got a list"},
		"vars:\n":       {"", ""},
		"- a\n":         {"none", "p.yaml:1:1: expected a plan, which is a mapping, got a list"},
		"vars: {a: [\n": {"none", "p.yaml:1:1: did not find expected node content"},
		"vars: {a: {default: 1, secret: {name: x, key: k}}}\n": {"a=<nil>late ", ""},
	} {
		require.NoError(t, os.WriteFile("p.yaml", []byte(src), 0o600))
		p, err := load.Vars("p.yaml", load.Options{Env: func(string) (string, bool) { return "/bin", true }})
		if want.fault == "" {
			require.NoError(t, err, src)
		} else {
			require.ErrorContains(t, err, want.fault, src)
		}
		if want.vars == "none" {
			require.Nil(t, p)
			continue
		}
		got := ""
		for _, v := range p.Variables {
			got += fmt.Sprintf("%s=%v", v.Name, v.Value)
			if v.Invalid {
				got += "!"
			}
			if v.Deferred {
				got += "late"
			}
			got += " "
		}
		require.Equal(t, want.vars, got, src)
	}
	_, err := load.Vars("missing.yaml", load.Options{})
	require.EqualError(t, err, "missing.yaml: cannot read the file: no such file or directory")
}
