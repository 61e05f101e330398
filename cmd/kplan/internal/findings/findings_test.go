package findings_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// report has findings of all kinds, with characters that formats must escape.
var report = findings.Report{
	File: "a b/plan.yaml",
	Findings: []finding.Finding{
		{
			Pos: document.Pos{File: "a b/plan.yaml", Line: 3, Col: 5}, Severity: finding.Error, Rule: "unknown-field", Path: "steps[0].need",
			Message: `unknown field "need": 100%`, Hint: "did you mean \"needs\"?", Excerpt: "need: [a]\n^",
		},
		{Pos: document.Pos{File: "va,rs:1.yaml"}, Severity: finding.Warning, Rule: "syntax", Message: "the file is empty"},
		{Pos: document.Pos{File: "--set x"}, Severity: finding.Note, Rule: "of-nobody", Message: "two\nlines"},
	},
	Rules:   append(finding.Codes(), finding.Rule{ID: "lint-rule", Summary: "It is odd.", Explanation: "Mend it.", Severity: finding.Warning}),
	Version: "v1.2.3",
}

func write(t *testing.T, r findings.Report, f data.Format) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.Write(&b, f))
	return b.String()
}

func TestText(t *testing.T) {
	require.Equal(t, `a b/plan.yaml:3:5: error: unknown field "need": 100% [unknown-field]
    need: [a]
    ^
  hint: did you mean "needs"?`, report.Findings[0].String())
}

func TestJSON(t *testing.T) {
	require.JSONEq(t, `{"file": "p", "valid": true, "steps": 1, "plan": "demo", "diagnostics": []}`,
		write(t, findings.Report{File: "p", Valid: true, Steps: 1, Plan: "demo"}, data.JSON))
	require.Contains(t, write(t, report, data.JSON), `"code": "unknown-field"`)
	require.Contains(t, write(t, report, data.YAML), "code: unknown-field\n")
}

func TestGitHub(t *testing.T) {
	require.Equal(t, `::error file=a b/plan.yaml,line=3,col=5,title=kplan unknown-field::unknown field "need": 100%25%0Ahint: did you mean "needs"?
::warning file=va%2Crs%3A1.yaml,title=kplan syntax::the file is empty
::notice title=kplan of-nobody::--set x: two%0Alines
`, write(t, report, findings.GitHub))
}

// Paths are relative to the root of the repository where that is known.
func TestRoot(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "deploy"), 0o755))
	t.Chdir(filepath.Join(dir, "deploy"))
	r := findings.Report{Root: dir, Findings: []finding.Finding{
		{Pos: document.Pos{File: "plan.yaml"}, Severity: finding.Error, Message: "x"},
		{Pos: document.Pos{File: "../../plan.yaml"}, Severity: finding.Error, Message: "x"},
	}}
	require.Equal(t, "::error file=deploy/plan.yaml,title=kplan ::x\n::error file=../../plan.yaml,title=kplan ::x\n", write(t, r, findings.GitHub))
	require.Contains(t, write(t, r, findings.SARIF), `"uri": "deploy/plan.yaml"`)
}

// The schema is the standard's own, as the Go module github.com/securego/gosec/v2
// carries it.
func TestSARIF(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
	require.NoError(t, err)
	for name, r := range map[string]findings.Report{"faults": report, "none": {}} {
		var log any
		require.NoError(t, json.Unmarshal([]byte(write(t, r, findings.SARIF)), &log), name)
		require.NoError(t, schema.Validate(log), name)
		bad := log.(map[string]any)
		bad["runs"].([]any)[0].(map[string]any)["tool"] = nil
		require.Error(t, schema.Validate(bad), "the schema refuses what is wrong")
	}

	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct {
					Rules []struct{ ID string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
					LogicalLocations []struct{ FullyQualifiedName string }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(write(t, report, findings.SARIF)), &log))
	rules, results := log.Runs[0].Tool.Driver.Rules, log.Runs[0].Results
	require.Len(t, results, 3)
	for _, r := range results {
		require.Equal(t, r.RuleID, rules[r.RuleIndex].ID)
	}
	at := results[0].Locations[0]
	require.Equal(t, "a%20b/plan.yaml", at.PhysicalLocation.ArtifactLocation.URI)
	require.Equal(t, []int{3, 5}, []int{at.PhysicalLocation.Region.StartLine, at.PhysicalLocation.Region.StartColumn})
	require.Equal(t, "steps[0].need", at.LogicalLocations[0].FullyQualifiedName)
	require.Equal(t, "unknown field \"need\": 100%\nhint: did you mean \"needs\"?", results[0].Message.Text)
	require.Equal(t, "--set x", results[2].Locations[0].LogicalLocations[0].FullyQualifiedName)
}
