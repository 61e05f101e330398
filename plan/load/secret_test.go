package load_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
)

// What an expression makes of a sensitive value is as secret as that.
func TestDerivedSecrets(t *testing.T) {
	const secret = `token: {default: "hunter-22/plum", sensitive: true}, creds: {default: {user: admin, pass: hunter-22/plum}, sensitive: true}`
	for expression, want := range map[string]string{
		`vars.token.upperAscii()`:                       redact.Mark,
		`vars.token.reverse()`:                          redact.Mark,
		`vars.token.substring(2, 9)`:                    redact.Mark,
		`vars.token.replace("-", "_")`:                  redact.Mark,
		`vars.token.split("/")[0]`:                      redact.Mark,
		`vars.creds.pass.reverse()`:                     redact.Mark,
		`"%s".format([vars.token.lowerAscii()])`:        redact.Mark,
		`[vars.token].map(x, x.reverse()).join("")`:     redact.Mark,
		`cel.bind(t, vars.token, t.reverse())`:          redact.Mark,
		`vars.open ? vars.token.reverse() : "else"`:     redact.Mark,
		`vars.token != "" ? "given" : "missing"`:        "given",
		`has(vars.creds.pass) ? "given" : "missing"`:    "given",
		`vars.token.startsWith("h") ? "given" : "none"`: "given",
		`string(size(vars.token) + 1000)`:               "1014",
		`{"hunter-22/plum": "chosen"}[vars.token]`:      "chosen",
	} {
		t.Run(expression, func(t *testing.T) {
			p, err := load.Parse("p.yaml", []byte(head+"vars: {"+secret+", open: {default: true}}\nsteps:\n  - name: a\n    description: 'about ${{ "+expression+" }}'\n    wait: {resource: pod/x, for: create}\n"), load.Options{})
			require.NoError(t, err)
			require.Equal(t, "about "+want, p.Sensitive.Text(p.Steps[0].Description))
		})
	}
}

// The values of a for_each, an include and an output are as secret as what they are
// made of.
func TestSecretsPassedOn(t *testing.T) {
	p, err := load.Parse("p.yaml", []byte(head+`
vars: {tokens: {default: {a: hunter-22/plum}, sensitive: true}}
steps:
  - {name: lb, wait: {resource: pod/x, for: create}, outputs: {pass: {resource: secret/s, jsonpath: "{.data.a}"}}}
  - {name: each, for_each: "${{ vars.tokens }}", description: "${{ each.value.reverse() }}", wait: {resource: pod/x, for: create}}
  - {name: late, needs: [lb], description: "${{ steps.lb.outputs.pass.reverse() }}", wait: {resource: pod/x, for: create}}
`), load.Options{})
	require.NoError(t, err)
	require.Equal(t, redact.Mark, p.Sensitive.Text(p.Steps[1].Description))
	late, err := p.Steps[2].Bind(plan.Inputs{p.Steps[2].Deferred()[0]: "later-than-read"})
	require.NoError(t, err)
	require.Equal(t, redact.Mark, p.Sensitive.Text(late.Description))
}
