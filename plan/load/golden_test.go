package load_test

import (
	"encoding/json"
	"flag"
	"fmt"
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

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// TestGolden loads plan.yaml of every archive in testdata, in a folder that
// holds the archive's other files, with the inputs in "args" (one flag on a
// line). A plan with faults must give exactly "diagnostics"; a good one "graph",
// and where the archive has them "steps", as JSON, and "vars": where their values
// come from. No environment variables are set but those in args.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			full, err := filepath.Abs(file)
			require.NoError(t, err)
			a, err := txtar.ParseFile(full)
			require.NoError(t, err)
			got := outputs(t, a)
			if *update {
				rewrite(t, full, a, got)
				return
			}
			want := map[string]string{}
			for _, f := range a.Files {
				if isOutput(f.Name) {
					want[f.Name] = string(f.Data)
				}
			}
			for _, name := range []string{"steps", "vars"} {
				if _, ok := want[name]; !ok {
					delete(got, name)
				}
			}
			require.Equal(t, want, got)
		})
	}
}

func isOutput(name string) bool {
	return name == "diagnostics" || name == "graph" || name == "steps" || name == "vars"
}

// outputs runs one archive.
func outputs(t *testing.T, a *txtar.Archive) map[string]string {
	t.Helper()
	t.Chdir(t.TempDir())
	in := inputs(t, "")
	for _, f := range a.Files {
		switch {
		case isOutput(f.Name):
		case f.Name == "args":
			in = inputs(t, string(f.Data))
		default:
			require.NoError(t, os.MkdirAll(filepath.Dir(f.Name), 0o755))
			require.NoError(t, os.WriteFile(f.Name, f.Data, 0o600))
		}
	}
	p, err := load.File("plan.yaml", in)
	if err != nil {
		require.IsType(t, document.Diagnostics{}, err)
		return map[string]string{"diagnostics": err.Error() + "\n"}
	}
	steps, err := json.MarshalIndent(p.Steps, "", "  ")
	require.NoError(t, err)
	return map[string]string{"graph": graph(p), "steps": string(steps) + "\n", "vars": vars(p)}
}

func inputs(t *testing.T, args string) (in load.Options) {
	t.Helper()
	env := map[string]string{}
	in.Env = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for line := range strings.Lines(args) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch name {
		case "--set":
			in.Set = append(in.Set, value)
		case "--var-file":
			in.VarFiles = append(in.VarFiles, value)
		case "--env":
			name, value, _ := strings.Cut(value, "=")
			env[name] = value
		default:
			t.Fatalf("args: %q is not understood", line)
		}
	}
	return in
}

// graph writes the levels, one on a line, and who needs each step.
func graph(p *plan.Plan) string {
	var b strings.Builder
	g := p.Graph()
	fmt.Fprintln(&b, "order:", strings.Join(g.Order(), " "))
	fmt.Fprintln(&b, "roots:", strings.Join(g.Roots(), " "))
	for i, level := range g.Levels() {
		fmt.Fprintf(&b, "level %d: %s\n", i, strings.Join(level, " "))
	}
	for _, s := range p.Steps {
		if d := g.Dependents(s.Name); len(d) > 0 {
			fmt.Fprintf(&b, "%s <- %s\n", s.Name, strings.Join(d, " "))
		}
	}
	return b.String()
}

// vars writes each variable on a line.
func vars(p *plan.Plan) string {
	var b strings.Builder
	for _, v := range p.Variables {
		fmt.Fprintf(&b, "%s: %s %#v from %s %s%s", v.Name, v.Type, v.Shown(), v.Source, v.Pos(), v.Env)
		if v.Ref != nil {
			fmt.Fprintf(&b, "%+v", *v.Ref)
		}
		if v.Deferred {
			b.WriteString(" late")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// rewrite puts the outputs at the end of the archive.
func rewrite(t *testing.T, file string, a *txtar.Archive, got map[string]string) {
	t.Helper()
	var kept []txtar.File
	with := map[string]bool{"diagnostics": true, "graph": true}
	for _, f := range a.Files {
		if !isOutput(f.Name) {
			kept = append(kept, f)
		}
		with[f.Name] = true
	}
	for _, name := range []string{"diagnostics", "graph", "steps", "vars"} {
		if data, ok := got[name]; ok && with[name] {
			kept = append(kept, txtar.File{Name: name, Data: []byte(data)})
		}
	}
	a.Files = kept
	require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o644))
}
