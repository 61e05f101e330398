package export_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// want is the folder of an archive with what is to be made: for each engine TARGET/objects.yaml,
// TARGET/files/… and TARGET/report.
const want = "want/"

// TestGolden exports plan.yaml, or fleet.yaml, of every archive in testdata for every engine.
// A line "set NAME=VALUE" of its comment gives a variable a value.
func TestGolden(t *testing.T) {
	for _, name := range archives(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			full, err := filepath.Abs(name)
			require.NoError(t, err)
			a, err := txtar.ParseFile(full)
			require.NoError(t, err)
			expected, made := map[string]string{}, map[string]string{}
			var inputs []txtar.File
			for _, f := range a.Files {
				if name, is := strings.CutPrefix(f.Name, want); is {
					expected[name] = string(f.Data)
				} else {
					inputs = append(inputs, f)
				}
			}
			in := input(t, a)
			for _, target := range export.Targets {
				result, err := export.Export(target, in)
				require.NoError(t, err)
				maps.Copy(made, texts(t, target.Name+"/", result))
			}
			if !*update {
				require.Equal(t, expected, made)
				return
			}
			a.Files = inputs
			for _, name := range slices.Sorted(maps.Keys(made)) {
				a.Files = append(a.Files, txtar.File{Name: want + name, Data: []byte(made[name])})
			}
			require.NoError(t, os.WriteFile(full, txtar.Format(a), 0o644))
		})
	}
}

func archives(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// input reads the plan or the fleet of an archive, in a folder of its own, which becomes the
// current one.
func input(t *testing.T, a *txtar.Archive) export.Input {
	t.Helper()
	return inputOf(t, nil, a)
}

// inputOf is input for a fleet whose kubeconfigs are in the cluster of flags.
func inputOf(t *testing.T, flags *genericclioptions.ConfigFlags, a *txtar.Archive) export.Input {
	t.Helper()
	t.Chdir(t.TempDir())
	isFleet := false
	for _, f := range a.Files {
		isFleet = isFleet || f.Name == "fleet.yaml"
		if !strings.HasPrefix(f.Name, want) {
			require.NoError(t, os.MkdirAll(filepath.Dir(f.Name), 0o755))
			require.NoError(t, os.WriteFile(f.Name, f.Data, 0o600))
		}
	}
	values := load.Options{Env: func(name string) (string, bool) { return "from " + name, strings.HasPrefix(name, "GIVEN") }}
	for line := range strings.Lines(string(a.Comment)) {
		if set, is := strings.CutPrefix(strings.TrimSpace(line), "set "); is {
			values.Set = append(values.Set, set)
		}
	}
	in := export.Input{Image: "ghcr.io/kplan-dev/kplan:v0.1.0", Git: export.Git{Path: "clusters/one"}}
	if isFleet {
		ofFleet(t, flags, &in, values)
		return in
	}
	var err error
	of := values
	of.Unknown = true
	in.Plan, err = load.File("plan.yaml", of)
	require.NoError(t, err)
	b, err := freeze.BundleOf(t.Context(), &fleet.Rollout{Clusters: []fleet.Cluster{{}}}, "plan.yaml", values)
	require.NoError(t, err)
	in.Digest = b.Digest
	in.Bundle, err = b.Archive()
	require.NoError(t, err)
	return in
}

// ofFleet reads a fleet. Without flags each of its clusters is at https://NAME.example.com.
func ofFleet(t *testing.T, flags *genericclioptions.ConfigFlags, in *export.Input, values load.Options) {
	t.Helper()
	f, err := fleetload.File("fleet.yaml", values)
	require.NoError(t, err)
	managed := inventory.NewManagement(inventory.Options{Clusters: f.Clusters, Dir: f.Dir, Flags: cmp.Or(flags, genericclioptions.NewConfigFlags(false))})
	found, err := managed.Find(t.Context(), f.Inventory)
	require.NoError(t, err)
	kubeconfig := func(_ context.Context, c fleet.Cluster) ([]byte, error) {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://%s.example.com"}}], users: [{name: u, user: {token: t}}]}`, strings.ReplaceAll(c.Name, "/", ".")), nil
	}
	if flags != nil {
		kubeconfig = (&inventory.Kubeconfigs{Management: managed}).Read
	}
	frozen, err := freeze.Freeze(t.Context(), freeze.Input{Fleet: f, Found: found, Values: values, Kubeconfig: kubeconfig})
	require.NoError(t, err)
	src, err := os.ReadFile("fleet.yaml")
	require.NoError(t, err)
	in.Fleet, _, _ = document.Read("fleet.yaml", src, document.Options{Keys: document.FleetKeys}, &document.Faults{})
	in.Rollout = frozen.Rollout
	in.For = func(c fleet.Cluster) (*plan.Plan, error) {
		of := values
		of.Fleet, of.Unknown = c.Vars, true
		return load.File(f.PlanName, of)
	}
	in.Plan, err = in.For(frozen.Clusters[0])
	require.NoError(t, err)
	in.Bundle, err = frozen.Bundle.Archive()
	require.NoError(t, err)
}

// texts are the files of a result. Archives are left out, since they are as the version of Go
// packs them.
func texts(t *testing.T, prefix string, r *export.Result) map[string]string {
	t.Helper()
	made := map[string]string{}
	var objects bytes.Buffer
	for _, o := range r.Objects {
		if binary, is := o["binaryData"].(map[string]any); is {
			for k := range binary {
				binary[k] = ""
			}
		}
		text, err := yaml.Marshal(o)
		require.NoError(t, err)
		objects.WriteString("---\n" + string(text))
	}
	made[prefix+"objects.yaml"] = objects.String()
	for name, text := range r.Files {
		made[prefix+"files/"+name] = string(text)
	}
	var report strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&report, "%s: %s: %s\n", f.Pos, f.Severity, f.Message)
		if f.Hint != "" {
			fmt.Fprintf(&report, "  hint: %s\n", f.Hint)
		}
	}
	for _, first := range r.First {
		fmt.Fprintf(&report, "first: %s\n", first)
	}
	made[prefix+"report"] = report.String()
	return made
}
