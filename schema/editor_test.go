package schema_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/schema"
)

const modeline = "# yaml-language-server: $schema=plan.schema.json\n"

// The file of an editor: ‸ marks the cursor.
const typed = modeline + `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: demo}
steps:
  - name: app
    helm:
      chart: ./chart
      on_failure: ‸
`

// What people see who edit a plan with the schema, by way of the language server
// that editors use.
func TestEditor(t *testing.T) {
	s := serve(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.schema.json"), schema.Plan, 0o600))
	address := func(name string) string {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, name))}
		return u.String()
	}
	// edit opens a text with a cursor in it.
	edit := func(name, text string) (uri string, p position) {
		before, after, found := strings.Cut(text, "‸")
		require.True(t, found)
		p.Line = strings.Count(before, "\n")
		p.Character = len(before) - strings.LastIndexByte(before, '\n') - 1
		uri = address(name)
		s.open(uri, before+after)
		return uri, p
	}

	t.Run("fields of a step", func(t *testing.T) {
		uri, p := edit("fields.yaml", strings.Replace(typed, "    helm:\n      chart: ./chart\n      on_failure: ‸\n", "    ‸\n", 1))
		offered := s.complete(uri, p)
		for _, field := range []string{"needs", "helm", "apply", "wait", "webhook", "include", "for_each", "timeout", "retry", "when", "tags", "outputs"} {
			require.Contains(t, offered, field)
		}
		require.NotContains(t, offered, "name", "it is there")
		require.Contains(t, offered["needs"], "the steps that must have ended before this one starts")
	})
	t.Run("fields of helm", func(t *testing.T) {
		uri, p := edit("helm.yaml", strings.Replace(typed, "on_failure: ‸", "‸", 1))
		require.Subset(t, keys(s.complete(uri, p)), []string{"repo", "version", "namespace", "create_namespace", "values", "values_files", "on_failure"})
	})
	t.Run("values", func(t *testing.T) {
		uri, p := edit("values.yaml", typed)
		offered := s.complete(uri, p)
		require.ElementsMatch(t, []string{"keep", "rollback", "uninstall"}, keys(offered))
		require.Contains(t, offered["rollback"], "goes back to the last revision that was deployed")
	})
	t.Run("true and false", func(t *testing.T) {
		uri, p := edit("booleans.yaml", strings.Replace(typed, "on_failure:", "create_namespace:", 1))
		require.Subset(t, keys(s.complete(uri, p)), []string{"true", "false"})
	})
	t.Run("hover", func(t *testing.T) {
		uri, p := edit("hover.yaml", strings.Replace(typed, "on_failure: ‸", "on_‸failure: keep", 1))
		require.Contains(t, s.hover(uri, p), "what happens to a release that failed")
		uri, p = edit("hover2.yaml", strings.Replace(typed, "    helm:\n", "    he‸lm:\n", 1)[:strings.Index(typed, "      on_failure")+len("‸")])
		require.Contains(t, s.hover(uri, p), "installs a release, or upgrades it when it is there")
	})
	t.Run("faults", func(t *testing.T) {
		n := 0
		for text, want := range map[string]string{ // the line, from 0, and what is said
			"need: [x]\n    wait: {resource: pod/a, for: create}":   "6 Property need is not allowed",
			"wait: {resource: 1, for: create}":                      "6 Incorrect type",
			"timeout: 10\n    wait: {resource: pod/a, for: create}": "6 Incorrect type",
			"timeout: 1d\n    wait: {resource: pod/a, for: create}": "6 write a number with its unit",
			"helm: {chart: ./c, wait: soon}":                        "6 Value is not accepted",
			"helm: {chart: ./c, create_namespace: maybe}":           "6 write true or false, or an expression",
			"helm: {repo: https://charts.example}":                  `6 Missing property "chart"`,
			"needs: [b]":                                            "Missing property",
		} {
			n++
			found := s.open(address(fmt.Sprintf("fault%d.yaml", n)), modeline+"apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: demo}\nsteps:\n  - name: a\n    "+text+"\n")
			var said []string
			for _, d := range found {
				said = append(said, fmt.Sprint(d.Range.Start.Line, " ", d.Message))
			}
			require.Contains(t, strings.Join(said, "\n"), want, text)
		}
	})
	t.Run("examples", func(t *testing.T) {
		files, err := filepath.Glob("../examples/*/plan*.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			if first, rest, _ := bytes.Cut(src, []byte("\n")); bytes.HasPrefix(first, []byte("# yaml-language-server:")) {
				src = rest // that of the example is relative to its folder
			}
			require.Empty(t, s.open(address(filepath.Base(filepath.Dir(f))+"-"+filepath.Base(f)), modeline+string(src)), f)
		}
	})
}

func keys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}
