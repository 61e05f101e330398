package expr

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the page of functions anew")

// named is a function that people write by its name: operators are called _+_ and the
// like, and functions of the checker's own have a @.
var named = regexp.MustCompile(`^[a-z][A-Za-z0-9_.]*$`)

// docs/reference/functions.md has all functions and macros that expressions know.
func TestPage(t *testing.T) {
	const file, mark = "../../docs/reference/functions.md", "<!-- functions: written by go test ./plan/expr -update -->\n"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(page), mark)
	require.True(t, found)
	language, err := base()
	require.NoError(t, err)

	var out strings.Builder
	out.WriteString(head + mark + "\n| function | forms |\n|---|---|\n")
	functions := language.Functions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if !named.MatchString(name) || name == "in" { // an operator too
			continue
		}
		var forms []string
		for _, o := range functions[name].OverloadDecls() {
			forms = append(forms, "`"+form(name, o.ArgTypes(), o.ResultType(), o.IsMemberFunction())+"`")
		}
		slices.Sort(forms)
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, strings.Join(slices.Compact(forms), "<br>"))
	}
	out.WriteString("\n| macro | arguments |\n|---|---|\n")
	macros := map[string][]string{}
	for _, m := range language.Macros() {
		if name := m.Function(); !strings.HasPrefix(name, "__") {
			n := fmt.Sprint(m.ArgCount())
			if m.ArgCount() == 0 {
				n = "any number"
			}
			if !slices.Contains(macros[name], n) {
				macros[name] = append(macros[name], n)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(macros)) {
		slices.Sort(macros[name])
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, strings.Join(macros[name], " or "))
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o644))
		return
	}
	require.Equal(t, out.String(), string(page), "stale: go test ./plan/expr -update")
}

// form is how a function is called, with the types of its arguments and its result.
func form(name string, args []*cel.Type, result *cel.Type, member bool) string {
	var types []string
	for _, a := range args {
		types = append(types, cel.FormatCELType(a))
	}
	if member {
		name, types = types[0]+"."+name, types[1:]
	}
	return name + "(" + strings.Join(types, ", ") + ") → " + cel.FormatCELType(result)
}
