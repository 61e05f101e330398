package foreign_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
)

// read reads one document.
func read(t *testing.T, text string) (*foreign.Value, *foreign.Report) {
	t.Helper()
	var r foreign.Report
	docs, err := foreign.Read(foreign.File{Name: "in.yaml", Data: []byte(text)}, foreign.Options{}, &r)
	require.NoError(t, err)
	require.Len(t, docs, 1)
	return docs[0], &r
}

// messages are the findings as people read them.
func messages(r *foreign.Report) []string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Pos.String()+" "+f.Path+": "+f.Message)
	}
	return all
}

// What nobody takes is told of, each field once and as a whole.
func TestLeftovers(t *testing.T) {
	v, r := read(t, `
name: a
list:
- used: 1
  spare: 2
- {spare: 3}
map: {deep: {er: 1}}
nothing: null
empty: {}
`)
	require.Equal(t, "a", v.Get("name").Text())
	n, ok := v.Get("list").Items()[0].Get("used").Int()
	require.True(t, ok)
	require.Equal(t, 1, n)
	v.Leftovers(foreign.Losses{"list[].spare": {What: "the spare one is lost"}, "...map": {What: "the map is lost"}})
	require.Equal(t, []string{
		"in.yaml:5:10 list[0].spare: the spare one is lost",
		"in.yaml:6:3 list[1]: the item of list is not imported",
		"in.yaml:7:1 map: the map is lost",
	}, messages(r))
}

// A field of another type than is asked for is not taken.
func TestOtherType(t *testing.T) {
	v, r := read(t, "wait: [1]\ntimeout: soon\nquoted: \"true\"\nlist: text")
	require.Empty(t, v.Get("wait").Text())
	_, ok := v.Get("timeout").Int()
	require.False(t, ok)
	_, ok = v.Get("quoted").Bool()
	require.False(t, ok)
	require.Nil(t, v.Get("list").Items())
	require.Nil(t, v.Get("none", "at", "all"))
	v.Leftovers(nil)
	require.Len(t, r.Findings, 4)
}

// Aliases and merge keys are as if they were written out, and told of once.
func TestMergeKeys(t *testing.T) {
	v, r := read(t, `
templates:
  base: &base {wait: true, odd: 1}
releases:
- <<: *base
  wait: false
- <<: [*base, {more: 2}]
`)
	v.Get("templates").Take()
	first, second := v.Get("releases").Items()[0], v.Get("releases").Items()[1]
	require.False(t, first.Get("wait").Or(true))
	require.True(t, second.Get("wait").Or(false))
	v.Leftovers(nil)
	require.Equal(t, []string{"in.yaml:3:33 releases[0].odd: the field odd is not imported", "in.yaml:7:22 releases[1].more: the field more is not imported"}, messages(r))
}

func TestSyntaxError(t *testing.T) {
	for text, at := range map[string]string{
		"a: [":            "in.yaml:1:1",
		"a:\n  b: 1\n c:": "in.yaml:2:1",
		"a: &x {b: *x}":   "in.yaml:1:11",
		"? [a]\n: b":      "in.yaml:1:3",
	} {
		_, err := foreign.Read(foreign.File{Name: "in.yaml", Data: []byte(text)}, foreign.Options{}, &foreign.Report{})
		require.ErrorContains(t, err, at, text)
	}
	bomb := "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]"
	_, err := foreign.Read(foreign.File{Name: "in.yaml", Data: []byte(bomb)}, foreign.Options{}, &foreign.Report{})
	require.ErrorIs(t, err, foreign.ErrTooLarge)
}

func TestFromPlan(t *testing.T) {
	for _, c := range []struct{ dir, file, want string }{
		{".", "values.yaml", "./values.yaml"},
		{"", "a/values.yaml", "./a/values.yaml"},
		{"deploy", "deploy/a/b.yaml", "./a/b.yaml"},
		{"deploy/x", "deploy/a/b.yaml", "../a/b.yaml"},
		{".", "../values.yaml", "./../values.yaml"},
		{"out", "../values.yaml", "../../values.yaml"},
		{"/tmp/plan", "/tmp/charts/a", "../charts/a"},
		{".", "/etc/values.yaml", "/etc/values.yaml"},
	} {
		require.Equal(t, c.want, foreign.Input{Dir: c.dir}.FromPlan(c.file), "%+v", c)
	}
	require.Equal(t, "sub/values/a.yaml", foreign.Beside("sub/helmfile.yaml", "./values/a.yaml"))
}

// A plan is written so that people can read it, and package load takes it.
func TestPlan(t *testing.T) {
	v, r := read(t, `
# how many
replicas: 3
auth: {password: hunter2, existingSecret: db}
env:
- {name: API_TOKEN, value: abc}
text: ${{ not ours }}
version: "1.10"
`)
	p := foreign.Plan{Name: "My Plan", Description: "a plan", Comments: []string{"Made by hand."}}
	p.Var("host", "where it is").Set("default", "example.com")
	p.Var("zone", "")
	first := p.Helm("db", "data")
	first.Cluster = p.Cluster("admin@prod")
	first.Fields.Set("chart", "db")
	first.Fields.Set("repo", "https://charts.example.com")
	first.Fields.Set("version", "1.10")
	first.Fields.Set("create_namespace", true)
	first.Fields.Keep("values", p.Values("db", v))
	first.Timeout = 10 * time.Minute
	second := p.Helm("db", "other")
	second.Need(first, "its Secret")
	second.Fields.Set("chart", "oci://"+foreign.Expr("vars.host")+"/charts/db")
	second.Comments = []string{"As the first one."}
	third := p.Add(&foreign.Step{Kind: plan.KindWait}, "db", "db")
	third.Need(first, "")
	third.Need(second, "")
	third.Need(second, "")
	third.Fields.Set("resource", "pod/db-0")
	third.Fields.Set("for", "ready")
	result := foreign.Result{Plan: &p, Report: *r}
	text, err := result.Text("plan.yaml")
	require.NoError(t, err, "%s", text)
	require.Equal(t, wantPlan, string(text))
	require.Equal(t, []string{
		"in.yaml:4:18 auth.password: the value looks like a secret and is not copied: the variable db_auth_password stands for it",
		"in.yaml:6:28 env[0].value: the value looks like a secret and is not copied: the variable db_env_value stands for it",
	}, messages(r))
}

const wantPlan = `# Made by hand.
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata:
  name: my-plan
  description: a plan
vars:
  host:
    description: where it is
    default: example.com
  zone: {}
  db_auth_password:
    description: auth.password of db
    sensitive: true
  db_env_value:
    description: env[0].value of db
    sensitive: true
clusters:
  admin-prod:
    context: admin@prod
steps:
  - name: db
    cluster: admin-prod
    timeout: 10m
    helm:
      chart: db
      repo: https://charts.example.com
      version: "1.10"
      create_namespace: true
      values:
        # how many
        replicas: 3
        auth: {password: '${{ vars.db_auth_password }}', existingSecret: db}
        env:
          - {name: API_TOKEN, value: '${{ vars.db_env_value }}'}
        text: $${{ not ours }}
        version: "1.10"
  # As the first one.
  - name: other-db
    needs:
      - db # its Secret
    helm:
      release: db
      chart: oci://${{ vars.host }}/charts/db
  - name: db-2
    needs: [db, other-db]
    wait:
      resource: pod/db-0
      for: ready
`

// What is wrong with a plan is an error, and the text is there to be mended.
func TestFault(t *testing.T) {
	p := foreign.Plan{}
	p.Helm("a", "")
	text, err := (&foreign.Result{Plan: &p}).Text("plan.yaml")
	require.ErrorContains(t, err, "chart")
	require.NotEmpty(t, text)
}

func TestNames(t *testing.T) {
	require.Equal(t, "a-b", foreign.Label("A__b."))
	require.Equal(t, "", foreign.Label("…"))
	require.Equal(t, "_1_a", foreign.Identifier("1.a"))
	require.Equal(t, "", foreign.Identifier("--"))
	require.Equal(t, "tier-web", foreign.Tag("tier=web"))
}
