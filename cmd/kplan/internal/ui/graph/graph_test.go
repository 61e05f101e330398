package graph_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui/graph"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// Every archive holds a plan and how each format draws it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			require.Equal(t, "plan.yaml", a.Files[0].Name)
			p, err := load.Parse("plan.yaml", a.Files[0].Data, load.Options{})
			require.NoError(t, err)
			got := &txtar.Archive{Comment: a.Comment, Files: a.Files[:1:1]}
			for _, f := range graph.Formats {
				got.Files = append(got.Files, txtar.File{Name: string(f), Data: draw(t, f, p)})
			}
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o644))
				return
			}
			require.Equal(t, string(txtar.Format(a)), string(txtar.Format(got)))
		})
	}
}

func draw(t *testing.T, f graph.Format, p *plan.Plan) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, graph.Write(&b, f, p, nil))
	return b.Bytes()
}

// An arrow leads from the step that brings webhooks to those whose objects they judge.
func TestGuards(t *testing.T) {
	p := &plan.Plan{Metadata: plan.Metadata{Name: "p"}, Steps: []plan.Step{
		{Name: "operator", Helm: &plan.Helm{}}, {Name: "rules", Needs: plan.Needs("operator"), Apply: &plan.Apply{}},
	}}
	guards := []runner.Guard{
		{Step: "operator", By: "operator", Webhooks: []string{"a.example.io"}, Objects: 1, Maybe: true},
		{Step: "rules", By: "operator", Webhooks: []string{"a.example.io", "b.example.io"}, Objects: 3},
	}
	for f, want := range map[graph.Format]string{
		graph.Text: `p: 2 steps on 2 levels
1  operator  helm
                    its own webhooks may judge 1 object: a.example.io
2  rules     apply  needs operator
                    webhooks of operator judge 3 objects: a.example.io, b.example.io
`,
		graph.Dot: `  "operator" -> "operator" [style=dashed, label="1 webhook?"];
  "operator" -> "rules" [style=dashed, label="2 webhooks"];
}
`,
		graph.Mermaid: `  s0 -. "1 webhook#63;" .-> s0
  s0 -. "2 webhooks" .-> s1
`,
		graph.JSON: `  "guards": [
    {
      "step": "operator",
      "by": "operator",
      "webhooks": [
        "a.example.io"
      ],
      "objects": 1,
      "maybe": true
    },
`,
	} {
		var b bytes.Buffer
		require.NoError(t, graph.Write(&b, f, p, guards))
		require.Contains(t, b.String(), want)
	}
}

// Plans made in Go are not checked, so names may be anything.
func TestQuoting(t *testing.T) {
	p := &plan.Plan{Metadata: plan.Metadata{Name: `a "b" \`}, Steps: []plan.Step{
		{Name: `x"]; evil --> y<script>`, Wait: &plan.Wait{}},
		{Name: "end", Needs: plan.Needs(`x"]; evil --> y<script>`, "nowhere"), Wait: &plan.Wait{}},
	}}
	require.Equal(t, `digraph "a \"b\" \\" {
  rankdir=LR;
  node [shape=box];
  "x\"]; evil --> y<script>" [label="x\"]; evil --> y<script>\nwait"];
  "end" [label="end\nwait"];
  "x\"]; evil --> y<script>" -> "end";
}
`, string(draw(t, graph.Dot, p)))
	require.Equal(t, `flowchart LR
  s0["x#34;#93;#59; evil --#62; y#60;script#62;<br/>wait"]
  s1["end<br/>wait"]
  s0 --> s1
`, string(draw(t, graph.Mermaid, p)))
}

func TestUnknownFormat(t *testing.T) {
	require.Error(t, graph.Write(&bytes.Buffer{}, "svg", &plan.Plan{}, nil))
}

// How a needed step must have ended stands at its arrow; finally steps stand
// below all others, and steps that are not run are grey.
func TestConditions(t *testing.T) {
	p := &plan.Plan{Metadata: plan.Metadata{Name: "p"}, Steps: []plan.Step{
		{Name: "app", Wait: &plan.Wait{}},
		{Name: "undo", Needs: []plan.Need{{Step: "app", On: plan.NeedFailure}}, Wait: &plan.Wait{}, Skip: "its when is false"},
		{Name: "report", Needs: []plan.Need{{Step: "clean", On: plan.NeedAlways}}, Wait: &plan.Wait{}, Last: true},
		{Name: "clean", Wait: &plan.Wait{}, Last: true},
	}}
	for f, want := range map[graph.Format]string{
		graph.Text: `p: 4 steps on 4 levels
1  app     wait
2  undo    wait  needs app (failure); skipped: its when is false
3  clean   wait  finally
4  report  wait  finally; needs clean (always)
`,
		graph.Dot: `digraph "p" {
  rankdir=LR;
  node [shape=box];
  "app" [label="app\nwait"];
  "undo" [label="undo\nwait", color=grey, fontcolor=grey];
  "report" [label="report\nwait, finally"];
  "clean" [label="clean\nwait, finally"];
  "app" -> "undo" [label="failure"];
  "clean" -> "report" [label="always"];
}
`,
		graph.Mermaid: `flowchart LR
  s0["app<br/>wait"]
  s1["undo<br/>wait"]:::skipped
  s2["report<br/>wait#44; finally"]
  s3["clean<br/>wait#44; finally"]
  s0 -- "failure" --> s1
  s3 -- "always" --> s2
  classDef skipped color:#999,stroke:#999,fill:none
`,
	} {
		require.Equal(t, want, string(draw(t, f, p)))
	}
	require.Contains(t, string(draw(t, graph.JSON, p)), `"needs_on": {
        "clean": "always"
      },
      "finally": true`)
}
