package plan_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
)

const head = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: a}\n"

func TestCondition(t *testing.T) {
	for text, want := range map[string]plan.Condition{
		"create":                              {Type: plan.ConditionCreate},
		"delete":                              {Type: plan.ConditionDelete},
		"condition=Ready":                     {Type: plan.ConditionStatus, Name: "Ready", Value: "true"},
		"condition=Ready=False":               {Type: plan.ConditionStatus, Name: "Ready", Value: "False"},
		"jsonpath={.status.phase}":            {Type: plan.ConditionJSONPath, Path: "{.status.phase}"},
		"jsonpath={.status.phase}=Running":    {Type: plan.ConditionJSONPath, Path: "{.status.phase}", Value: "Running"},
		`jsonpath={.a}="x=y"`:                 {Type: plan.ConditionJSONPath, Path: "{.a}", Value: "x=y"},
		"jsonpath=.status.phase=Running":      {Type: plan.ConditionJSONPath, Path: "{.status.phase}", Value: "Running"},
		"jsonpath=status.phase":               {Type: plan.ConditionJSONPath, Path: "{.status.phase}"},
		`jsonpath={.c[?(@.t=="R}=")].s}=True`: {Type: plan.ConditionJSONPath, Path: `{.c[?(@.t=="R}=")].s}`, Value: "True"},
		`jsonpath={range .a}{.b}{end}`:        {},
		"jsonpath=":                           {},
		"jsonpath={.a}x":                      {},
		"jsonpath={.a}=":                      {},
		`jsonpath={.a[?(@.b=="x)]}=1`:         {},
		"condition":                           {},
		"condition==x":                        {},
		"Ready":                               {},
		"create=now":                          {},
		"":                                    {},
	} {
		got, err := plan.Wait{For: text}.Condition()
		if want.Type == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := plan.Wait{For: got.String()}.Condition()
		require.NoError(t, err, text)
		require.Equal(t, got, again, text)
	}
}

func TestDefaults(t *testing.T) {
	p, err := load.Parse("p.yaml", []byte(head+`
defaults: {timeout: 3m, retry: {install_retries: 3}, webhooks: {hold_timeout: 1m}}
steps:
  - {name: plain, wait: {resource: pod/x, for: create}}
  - name: own
    timeout: 90s
    retry: {retry_delay_seconds: 0.5}
    webhooks: {hold: false}
    wait: {resource: pod/x, for: create}
`), load.Options{})
	require.NoError(t, err)
	plain, own := p.Steps[0], p.Steps[1]
	require.Equal(t, 3*time.Minute, p.StepTimeout(plain))
	require.Equal(t, 90*time.Second, p.StepTimeout(own))
	require.Equal(t, plan.Retry{InstallRetries: 3, RetryDelaySeconds: new(10.0), Multiplier: 1, MaxDelaySeconds: 300, Jitter: new(0.0)}, p.StepRetry(plain))
	require.Equal(t, plan.Retry{InstallRetries: 3, RetryDelaySeconds: new(0.5), Multiplier: 1, MaxDelaySeconds: 300, Jitter: new(0.0)}, p.StepRetry(own))
	require.Equal(t, plan.Hold{Hold: true, HoldTimeout: time.Minute, MisconfiguredTimeout: 30 * time.Second}, p.StepWebhooks(plain))
	require.Equal(t, plan.Hold{Hold: false, HoldTimeout: time.Minute, MisconfiguredTimeout: 30 * time.Second}, p.StepWebhooks(own))

	var bare plan.Plan
	require.Equal(t, 10*time.Minute, bare.StepTimeout(plan.Step{}))
	require.Equal(t, plan.Retry{InstallRetries: 1, RetryDelaySeconds: new(10.0), Multiplier: 1, MaxDelaySeconds: 300, Jitter: new(0.0)}, bare.StepRetry(plan.Step{}))
	require.Equal(t, plan.Hold{Hold: true, HoldTimeout: 5 * time.Minute, MisconfiguredTimeout: 30 * time.Second}, bare.StepWebhooks(plan.Step{}))
}

// No delay and no jitter are values like others: they win over the defaults.
func TestNoDelay(t *testing.T) {
	p, err := load.Parse("p.yaml", []byte(head+`
vars: {none: {default: 0}}
defaults: {retry: {install_retries: 2, retry_delay_seconds: 30, jitter: 0.5}}
steps:
  - {name: plain, wait: {resource: pod/x, for: create}}
  - {name: own, retry: {retry_delay_seconds: 0, jitter: 0}, wait: {resource: pod/x, for: create}}
  - {name: read, retry: {retry_delay_seconds: "${{ vars.none }}"}, wait: {resource: pod/x, for: create}}
`), load.Options{})
	require.NoError(t, err)
	for i, want := range [][]float64{{30, 0.5}, {0, 0}, {0, 0.5}} {
		r := p.StepRetry(p.Steps[i])
		require.Equal(t, want, []float64{*r.RetryDelaySeconds, *r.Jitter}, p.Steps[i].Name)
	}
}

// Files come in the order of the step, those of a glob sorted, each once; the
// folder of the plan may have characters of globs in its name.
func TestFiles(t *testing.T) {
	root := filepath.Join(t.TempDir(), "odd[1]*name")
	dir := filepath.Join(root, "plans")
	for _, f := range []string{"plans/b.yaml", "plans/a.yaml", "plans/sub/c.yaml", "shared/z.yaml", "plans/x[1].yaml"} {
		full := filepath.Join(root, f)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o755))
	for _, c := range []struct{ files, want []string }{
		{[]string{"*.yaml"}, []string{"plans/a.yaml", "plans/b.yaml", "plans/x[1].yaml"}},
		{[]string{"b.yaml", "*.yaml"}, []string{"plans/b.yaml", "plans/a.yaml", "plans/x[1].yaml"}},
		{[]string{"x[1].yaml", "./sub/?.yaml"}, []string{"plans/x[1].yaml", "plans/sub/c.yaml"}},
		{[]string{"../shared/*", filepath.Join(dir, "a.yaml")}, []string{"shared/z.yaml", "plans/a.yaml"}},
	} {
		got, err := plan.Step{Dir: dir}.Files(c.files)
		require.NoError(t, err)
		for i := range got {
			got[i], err = filepath.Rel(root, got[i])
			require.NoError(t, err)
		}
		require.Equal(t, c.want, got)
	}
	for _, bad := range []string{"missing.yaml", "*.json", "sub", "**/c.yaml", "[.yaml", "a\x00b"} {
		_, err := plan.Step{Dir: dir}.Files([]string{bad})
		require.Error(t, err, bad)
	}
}

// What a variable file holds is never shown, for it may be a secret; nor is the
// value of a variable.
func TestSecretsAreNotShown(t *testing.T) {
	t.Chdir(t.TempDir())
	src := []byte(head + "vars: {token: {}}\nsteps:\n  - name: a\n    helm: {chart: oci://r.example/a, plain_http: \"${{ vars.token }}\", values: \"${{ vars.token }}\"}\n    timeout: ${{ vars.token }}\n  - {name: b, apply: {wait: \"${{ vars.token }}\", files: [a]}}\n")
	for _, file := range []string{"token: s3cret\n", "tokn: s3cret\n", "token: s3cret\ntoken: s3cret\n", "s3cret\n", "- s3cret\n", "token: 's3cret\n", "token: {a: s3cret\n", "\ttoken: s3cret\n", "token: *s3cret\n", "token: !s3cret a\n", "token: a\n---\ns3cret\n"} {
		require.NoError(t, os.WriteFile("v.yaml", []byte(file), 0o600))
		_, err := load.Parse("p.yaml", src, load.Options{VarFiles: []string{"v.yaml"}})
		require.Error(t, err, file)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
