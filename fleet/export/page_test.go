package export_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/plan/finding"
)

// lostOf are plans and fleets, each with one thing that some engine loses, by the row of the
// page's table, and what findings say of it.
var lostOf = []lostRow{
	{row: "requests held for webhooks", steps: "[" + applied + "]", says: "holds no request"},
	{row: "`webhook` steps, canaries", steps: "[{name: a, webhook: {configuration: x}}]", says: "nothing waits until the webhooks answer"},
	{row: "`wait` steps", steps: "[" + applied + ", {name: w, needs: [a], wait: {resource: configmap/a, namespace: default, for: ready}}]", says: "step w:"},
	{row: "`delete` steps", steps: "[{name: a, delete: {release: x, namespace: default}}]", says: "and nothing else"},
	{row: "`outputs`", steps: "[{name: a, outputs: {x: {resource: configmap/a, jsonpath: '{.data}'}}, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}}]", says: "hands no values"},
	{row: "`when`", steps: "[{name: a, when: '${{ 1 < 2 }}', apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}}]", says: "has no condition"},
	{row: "`finally`", steps: "[" + applied + "]\nfinally: [{name: f, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: f}}]}}]", says: "runs at the end"},
	{row: "`needs` across helm and apply", steps: "[" + applied + ", {name: h, needs: [a], helm: {chart: h, repo: 'https://charts.example.com'}}]", says: "does not wait for the step a"},
	{row: "`install_retries`", steps: "[{name: h, retry: {install_retries: 3}, helm: {chart: h, repo: 'https://charts.example.com'}}]", says: "3 times|install_retries 3"},
	{row: "sensitive values", steps: "[{name: h, helm: {chart: h, repo: 'https://charts.example.com', values: {a: '${{ vars.secret }}'}}}]", says: "sensitive"},
	{row: "`parallel` of a wave", wave: "parallel: 1", says: "all clusters"},
	{row: "`max_failures` of a wave", wave: "max_failures: 1", says: "fail|waves, their limits"},
	{row: "`soak` of a wave", wave: "soak: 1m", says: "waits after|wait after|begins the wave after|soak times"},
	{row: "`approve` of a wave", wave: "approve: true", says: "approval|is suspended"},
	{row: "`budget`", wave: "max_failures: 0", says: "by cause"},
}

type lostRow struct{ row, steps, wave, says string }

const applied = "{name: a, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}}"

// The table of docs/reference/export.md says what findings say.
func TestLostPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/export.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "<!-- lost: checked by go test ./fleet/export -run TestLostPage -->\n")
	require.True(t, found)
	rows := strings.Split(strings.TrimSpace(strings.Split(table, "\n*Changed*")[0]), "\n")
	columns := strings.Split(rows[0], " | ")[1:]
	require.Len(t, rows, 2+len(lostOf))
	for i, c := range lostOf {
		cells := strings.Split(strings.Trim(rows[i+2], "| "), " | ")
		require.Equal(t, c.row, cells[0])
		in := input(t, txtar.Parse([]byte(c.archive())))
		for k, column := range columns {
			for _, target := range export.Targets {
				if target.Name != strings.Trim(column, "| ") {
					continue
				}
				r, err := export.Export(target, in)
				require.NoError(t, err)
				require.Equal(t, cells[k+1], said(r.Findings, c.says), "%s: %s: %v", target.Name, c.row, r.Findings)
			}
		}
	}
}

// archive is the row's plan, or a fleet of two waves with two clusters each.
func (c *lostRow) archive() string {
	steps := c.steps
	if steps == "" {
		steps = "[" + applied + "]"
	}
	text := "set secret=hunter2hunter2\n-- plan.yaml --\napiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: p}\nvars: {secret: {sensitive: true}}\nsteps: " + steps + "\n"
	if c.wave == "" {
		return text
	}
	return text + `-- fleet.yaml --
apiVersion: kplan.dev/v1alpha1
kind: Fleet
metadata: {name: f}
plan: {file: plan.yaml}
inventory:
  - list:
      - {name: a, kubeconfig_secret: {namespace: f, name: a}, labels: {ring: "0"}}
      - {name: b, kubeconfig_secret: {namespace: f, name: b}, labels: {ring: "0"}}
      - {name: c, kubeconfig_secret: {namespace: f, name: c}, labels: {ring: "1"}}
waves:
  - {name: one, select: cluster.labels.ring == "0", ` + c.wave + `}
  - {name: two}
budget: {same_cause: 1}
`
}

// said is what findings say of something: that it is lost, changed or kept.
func said(all []finding.Finding, words string) string {
	is := "kept"
	for _, f := range all {
		for w := range strings.SplitSeq(words, "|") {
			switch {
			case !strings.Contains(f.Message, w):
			case f.Rule == export.Lost:
				return "lost"
			default:
				is = "changed"
			}
		}
	}
	return is
}
