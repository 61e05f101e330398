package freeze_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// TestGolden freezes fleet.yaml of every archive in testdata with the clusters of
// found.yaml, which is a list for each entry of the inventory. A rollout must be exactly
// "rollout", notes and warnings "said", and an error "error".
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
			outputs := []string{"rollout", "said", "error"}
			got, want := freezeOf(t, a), map[string]string{}
			var inputs []txtar.File
			for _, f := range a.Files {
				if f.Name == "rollout" || f.Name == "said" || f.Name == "error" {
					want[f.Name] = string(f.Data)
				} else {
					inputs = append(inputs, f)
				}
			}
			if !*update {
				require.Equal(t, want, got)
				return
			}
			a.Files = inputs
			for _, name := range outputs {
				if data, ok := got[name]; ok {
					a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(data)})
				}
			}
			require.NoError(t, os.WriteFile(full, txtar.Format(a), 0o644))
		})
	}
}

// foundEntry are the clusters of an entry.
type foundEntry struct {
	// Server of a cluster is the address in its kubeconfig; "" for none.
	Clusters []fleet.Cluster
	Refused  map[string]string
	Notes    map[string]string
}

func freezeOf(t *testing.T, a *txtar.Archive) map[string]string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	var entries []foundEntry
	for _, f := range a.Files {
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Name), 0o755))
		require.NoError(t, os.WriteFile(f.Name, f.Data, 0o600))
		if f.Name == "found.yaml" {
			require.NoError(t, yaml.UnmarshalStrict(f.Data, &entries))
		}
	}
	in := freeze.Input{Values: load.Options{Env: func(name string) (string, bool) { return "from " + name, name == "GIVEN" }}}
	var err error
	in.Fleet, err = load.File("fleet.yaml", in.Values)
	require.NoError(t, err)
	servers := map[string]string{}
	for _, e := range entries {
		var f inventory.Found
		for _, c := range e.Clusters {
			servers[c.Name], c.Server = c.Server, ""
			f.Clusters = append(f.Clusters, c)
		}
		for name, why := range e.Refused {
			f.Refused = append(f.Refused, inventory.Refused{Cluster: fleet.Cluster{Name: name}, Err: runner.WithHint(errors.New(why), "mend it")})
		}
		for name, why := range e.Notes {
			f.Notes = append(f.Notes, inventory.Note{Cluster: name, Why: why})
		}
		in.Found = append(in.Found, f)
	}
	in.Kubeconfig = func(_ context.Context, c fleet.Cluster) ([]byte, error) {
		if servers[c.Name] == "" {
			return nil, fmt.Errorf("Secret %s-kubeconfig: it is not there", c.Name)
		}
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q, certificate-authority-data: Q0E=}}]}`, servers[c.Name]), nil
	}
	f, err := freeze.Freeze(t.Context(), in)
	if err != nil {
		require.Nil(t, f)
		return map[string]string{"error": strings.ReplaceAll(shown(err), dir+"/", "")}
	}
	require.True(t, f.Sealed())
	rollout, err := json.MarshalIndent(f.Rollout, "", "  ")
	require.NoError(t, err)
	said := fmt.Sprintf("files %s\nplan %s\n", strings.Join(f.Bundle.Files(), " "), f.Bundle.Plan)
	for _, n := range f.Notes {
		said += "note " + n.String() + "\n"
	}
	for _, w := range f.Warnings {
		said += "warning " + w + "\n"
	}
	said += fmt.Sprintf("unselected %d, withheld %v\n", f.Unselected, f.Withheld)

	// What is read again is the same.
	again := &fleet.Rollout{}
	require.NoError(t, json.Unmarshal(rollout, again))
	require.True(t, again.Sealed())
	require.NoError(t, freeze.Check(t.Context(), again, in.Fleet.PlanFile, in.Values))
	return map[string]string{"rollout": string(rollout) + "\n", "said": said}
}

// shown is an error with its hints.
func shown(err error) string {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all string
		for _, e := range many.Unwrap() {
			all += shown(e)
		}
		return all
	}
	if faults, ok := errors.AsType[document.Diagnostics](err); ok {
		return faults.Error() + "\n"
	}
	return err.Error() + "\n  hint: " + runner.HintOf(err) + "\n"
}
