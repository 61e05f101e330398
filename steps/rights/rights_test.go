package rights_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/rights"
)

var update = flag.Bool("update", false, "write the rights into testdata anew")

// Each file of testdata is a plan with its files, and in "rights" what it needs beyond its
// lock, its record and what every hold takes: a line for each place and resource, with the
// step and what for. "roles" is what is granted in all, "notes" what is said of it.
func TestRights(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			var kept []txtar.File
			for _, f := range a.Files {
				switch f.Name {
				case "rights", "notes", "roles":
					continue
				}
				kept = append(kept, f)
				path := filepath.Join(dir, f.Name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, f.Data, 0o600))
			}
			p, err := load.File(filepath.Join(dir, "plan.yaml"), load.Options{})
			require.NoError(t, err)
			got := &txtar.Archive{Comment: a.Comment, Files: kept}
			rules, notes := rights.Of(input(t, p))
			for name, text := range map[string]string{"rights": linesOf(rules), "roles": rolesOf(rules), "notes": notesOf(notes)} {
				if text != "" {
					got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(text)})
				}
			}
			sortTail(got.Files[len(kept):])
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o600))
			}
			require.Equal(t, string(txtar.Format(a)), string(txtar.Format(got)))
		})
	}
}

func sortTail(files []txtar.File) {
	for i := range files {
		for j := i + 1; j < len(files); j++ {
			if files[j].Name < files[i].Name {
				files[i], files[j] = files[j], files[i]
			}
		}
	}
}

// input reads a plan's objects as far as that takes no cluster.
func input(t *testing.T, p *plan.Plan) rights.Input {
	t.Helper()
	in := rights.Input{Plan: p.Metadata.Name, State: p.StateNamespace(), Namespace: "default"}
	var all []*unstructured.Unstructured
	for _, s := range p.Steps {
		step := rights.Step{Step: s, Namespace: "default"}
		if s.Helm != nil || s.Apply != nil {
			objects, err := manifest.Planned(t.Context(), s, nil)
			require.NoError(t, err)
			for _, o := range objects {
				if o.GetNamespace() == "" {
					o.SetNamespace("default")
				}
			}
			step.Objects = manifest.Bare(objects)
		}
		all = append(all, step.Objects...)
		in.Steps = append(in.Steps, step)
	}
	in.Kinds = rights.Planned(all)
	return in
}

// linesOf writes what the steps need.
func linesOf(rules []rights.Rule) string {
	var lines []string
	at := map[string]int{}
	for _, r := range rules {
		if r.Step == "" {
			continue
		}
		resource := cmp.Or(r.URL, strings.TrimSuffix(r.Resource+"."+r.Group, "."))
		key := fmt.Sprintf("%s %s %s %v %s", cmp.Or(r.Namespace, "-"), resource, r.Step, r.Names, r.For)
		if i, known := at[key]; known {
			lines[i] = strings.Replace(lines[i], ": ", ","+r.Verb+": ", 1)
			continue
		}
		names := ""
		if r.Names != nil {
			names = " " + strings.Join(r.Names, " ")
		}
		if r.Optional {
			names += " (optional)"
		}
		at[key] = len(lines)
		lines = append(lines, fmt.Sprintf("%s %s %s: %s%s  # %s", cmp.Or(r.Namespace, "-"), resource, r.Verb, r.Step, names, r.For))
	}
	return strings.Join(append(lines, ""), "\n")
}

// rolesOf writes what roles grant, a line a rule.
func rolesOf(rules []rights.Rule) string {
	var b strings.Builder
	roles := rights.RolesOf(rules, rights.Grant{Name: "r"})
	if roles.ClusterRole != nil {
		for _, p := range roles.ClusterRole.Rules {
			fmt.Fprintf(&b, "ClusterRole: %v %v %v %v %v\n", p.APIGroups, p.Resources, p.Verbs, p.ResourceNames, p.NonResourceURLs)
		}
	}
	for _, role := range roles.Roles {
		for _, p := range role.Rules {
			fmt.Fprintf(&b, "Role %s: %v %v %v %v\n", role.Namespace, p.APIGroups, p.Resources, p.Verbs, p.ResourceNames)
		}
	}
	return b.String()
}

func notesOf(notes []rights.Note) string {
	var b strings.Builder
	for _, n := range notes {
		word := "note"
		if n.Unknown {
			word = "unknown"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", word, n.Step, n.Text)
	}
	return b.String()
}
