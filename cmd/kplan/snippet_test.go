package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// pages are all pages of the documentation, but those that are made of the commands.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md"}
	root := os.DirFS(filepath.Join("..", ".."))
	require.NoError(t, fs.WalkDir(root, "docs", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && (e.Name() == "cli" || e.Name() == "node_modules" || strings.HasPrefix(e.Name(), ".")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// blocks are the blocks of code of all pages.
func blocks(t *testing.T) []fence {
	t.Helper()
	var all []fence
	for _, page := range pages(t) {
		found := fences(t, filepath.Join("..", "..", filepath.FromSlash(page)))
		for i := range found {
			found[i].file = page
		}
		all = append(all, found...)
	}
	return all
}

// Every block of code in the documentation is of a language that is checked here, or of one
// that is only shown; or it is marked with the reason why nothing checks it. Those are
// listed, so that there are not more of them unless somebody wants it.
func TestBlocks(t *testing.T) {
	shown := []string{"", "json", "powershell", "groovy", "mermaid", "text", "diff", "go", "promql"}
	var exempt []string
	for _, f := range blocks(t) {
		m := unchecked.FindStringSubmatch(f.info)
		switch {
		case m != nil:
			exempt = append(exempt, fmt.Sprintf("%s %s: %s", f.file, f.lang, m[1]))
		case strings.Contains(f.info, "unchecked"):
			assert.Fail(t, "a mark without a reason", "%s:%d: %s", f.file, f.line, f.info)
		default:
			assert.Contains(t, append([]string{"yaml", "sh", "console"}, shown...), f.lang, "%s:%d: nothing checks this language", f.file, f.line)
		}
		if f.lang == "" {
			assert.NotRegexp(t, `(?m)^\$ `, f.text, "%s:%d: commands stand in blocks of the language console", f.file, f.line)
		}
	}
	file := filepath.Join("testdata", "unchecked.txt")
	want := strings.Join(slices.Sorted(slices.Values(exempt)), "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(got), want, "blocks that nothing checks: if they must be, go test ./cmd/kplan -run TestBlocks -update")
	t.Logf("%d blocks are not checked", len(exempt))
}

// Every yaml block is a plan or a fleet, a part of one, or an object of Kubernetes. A list is one
// of steps. A mapping has fields of a plan, of a step, or of a step's helm. What a part
// needs of the rest of its plan is put beside it.
func TestPlanBlocks(t *testing.T) {
	n := 0
	for _, f := range blocks(t) {
		if f.lang != "yaml" || unchecked.MatchString(f.info) {
			continue
		}
		n++
		t.Run(fmt.Sprintf("%s:%d", f.file, f.line), func(t *testing.T) {
			for text := range strings.SplitSeq(f.text, "\n---\n") {
				checkYAML(t, text)
			}
		})
	}
	require.Greater(t, n, 20)
}

func checkYAML(t *testing.T, text string) {
	t.Helper()
	var tree any
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &tree), text)
	fields, _ := tree.(map[string]any)
	version, _ := fields["apiVersion"].(string)
	if fields["kind"] == "Lock" || version != "" && !strings.HasPrefix(version, "kplan.dev/") {
		name, _ := fields["metadata"].(map[string]any)
		require.NotEmpty(t, fields["kind"])
		require.True(t, fields["kind"] == "Lock" || name["name"] != nil, "an object has a name")
		return
	}
	if fields["kind"] == "Fleet" || hasAny(fields, "engine", "inventory", "waves", "budget") {
		src := wholeFleet(text, fields)
		_, err := fleetload.Parse("fleet.yaml", []byte(src))
		require.NoError(t, err, src)
		return
	}
	src := whole(shortDigest.ReplaceAllString(text, "sha256:"+strings.Repeat("0", 64)), tree)
	// The files that a page's plan names are not there: only its outline is read.
	_, err := load.Parse("plan.yaml", []byte(src), load.Options{Env: func(string) (string, bool) { return "x", true }, Unset: true})
	faults, _ := errors.AsType[document.Diagnostics](err)
	for _, d := range faults {
		if !missingFile.MatchString(d.Message) {
			assert.Fail(t, d.Message, "line %d of\n%s", d.Line, src)
		}
	}
	if faults == nil {
		require.NoError(t, err, src)
	}
}

// missingFile is what load says of files that a plan includes, or of those of var.
var missingFile = regexp.MustCompile(`no such file|does not exist|cannot be read|there is no plan`)

// shortDigest is a digest that a page cuts.
var shortDigest = regexp.MustCompile(`sha256:[0-9a-f]*…`)

// whole makes a plan of a part of one.
func whole(text string, tree any) string {
	fields, isMapping := tree.(map[string]any)
	head := ""
	for _, line := range []string{"apiVersion: kplan.dev/v1alpha1", "kind: Plan", "metadata: {name: page}"} {
		if name, _, _ := strings.Cut(line, ":"); fields[name] == nil {
			head += line + "\n"
		}
	}
	switch {
	case !isMapping: // steps
		return head + surroundings(text, tree) + "steps:\n" + others(text, tree) + indented(text, "")
	case fields["apiVersion"] != nil || hasAny(fields, planFields...):
		if fields["steps"] == nil {
			text += "\nsteps: [{name: a-step-of-the-page, wait: {resource: pod/a, for: create}}]\n"
		}
		return head + text + "\n" + surroundings(text, tree)
	case hasAny(fields, "helm", "apply", "wait", "webhook", "outputs", "retry", "needs"):
		if !hasAny(fields, "helm", "apply", "wait", "webhook") {
			text += "\nwait: {resource: pod/a, for: create}\n"
		}
		return head + surroundings(text, tree) + "steps:\n" + others(text, tree) + "- name: a-step-of-the-page\n" + indented(text, "  ")
	}
	return head + "steps:\n- name: a-step-of-the-page\n  helm:\n" + indented(text, "    ")
}

// wholeFleet makes a fleet file of a part of one.
func wholeFleet(text string, fields map[string]any) string {
	for _, line := range []string{
		"apiVersion: kplan.dev/v1alpha1", "kind: Fleet", "metadata: {name: page}", "plan: {file: plan.yaml}", "inventory: [{contexts: {}}]", "waves: [{name: all}]",
	} {
		if name, _, _ := strings.Cut(line, ":"); fields[name] == nil {
			text = line + "\n" + text
		}
	}
	return text
}

var planFields = []string{"vars", "clusters", "repositories", "defaults", "ready", "state", "steps", "finally"}

func hasAny(fields map[string]any, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, has := fields[n]; return has })
}

func indented(text, by string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(by + line)
	}
	return out.String() + "\n"
}

var (
	readVar = regexp.MustCompile(`\bvars\.(\w+)`)
	readOf  = regexp.MustCompile(`\bsteps\.([\w-]+)`)
)

// others are steps by the names that a list of steps needs and does not have. Each installs
// a release of its name.
func others(text string, tree any) string {
	steps, has := map[string]bool{}, map[string]bool{}
	gather(tree, map[string]bool{}, steps, has)
	for _, m := range readOf.FindAllStringSubmatch(text, -1) {
		steps[m[1]] = true
	}
	maps.DeleteFunc(steps, func(name string, _ bool) bool { return has[name] })
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		out.WriteString("- {name: " + name + ", helm: {chart: ./" + name + "}}\n")
	}
	return out.String()
}

// surroundings declares the variables and clusters that a part of a plan names and does
// not have.
func surroundings(text string, tree any) string {
	vars, clusters := map[string]bool{}, map[string]bool{}
	for _, m := range readVar.FindAllStringSubmatch(text, -1) {
		vars[m[1]] = true
	}
	gather(tree, clusters, map[string]bool{}, map[string]bool{})
	fields, _ := tree.(map[string]any)
	var out strings.Builder
	if len(vars) > 0 && fields["vars"] == nil {
		out.WriteString("vars:\n")
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			out.WriteString("  " + name + ": {type: any, default: {}}\n")
		}
	}
	if len(clusters) > 0 && fields["clusters"] == nil {
		out.WriteString("clusters:\n")
		for _, name := range slices.Sorted(maps.Keys(clusters)) {
			out.WriteString("  " + name + ": {}\n")
		}
	}
	return out.String()
}

// gather finds the names of clusters and of needed steps, and those that steps have.
func gather(tree any, clusters, steps, has map[string]bool) {
	switch v := tree.(type) {
	case map[string]any:
		if name, ok := v["cluster"].(string); ok && !strings.Contains(name, "{") {
			clusters[name] = true
		}
		if name, ok := v["name"].(string); ok {
			has[name] = true
		}
		needs, _ := v["needs"].([]any)
		for _, need := range needs {
			if detailed, ok := need.(map[string]any); ok {
				need = detailed["step"]
			}
			steps[fmt.Sprint(need)] = true
		}
		for _, x := range v {
			gather(x, clusters, steps, has)
		}
	case []any:
		for _, x := range v {
			gather(x, clusters, steps, has)
		}
	}
}

// Every shell block is shell, and every kplan command in one, in a console block or in the
// text has a command and flags that there are.
func TestCommandBlocks(t *testing.T) {
	root := newRoot(newApp("kplan", strings.NewReader(""), io.Discard, io.Discard))
	root.InitDefaultCompletionCmd()
	n := 0
	check := func(place, line string) {
		for _, words := range kplanCommands(line) {
			n++
			assert.NoError(t, parses(root, words), "%s: kplan %s", place, strings.Join(words, " "))
		}
	}
	for _, f := range blocks(t) {
		place := fmt.Sprintf("%s:%d", f.file, f.line)
		switch {
		case unchecked.MatchString(f.info):
		case f.lang == "sh":
			requireShell(t, place, f.text)
			check(place, f.text)
		case f.lang == "console":
			for _, p := range f.session() {
				requireShell(t, place, p.command)
				check(fmt.Sprintf("%s:%d", f.file, p.line), p.command)
			}
		}
	}
	inline := regexp.MustCompile("`(kplan [a-z][^`]*)`")
	for _, page := range pages(t) {
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
		require.NoError(t, err)
		for _, m := range inline.FindAllStringSubmatch(string(b), -1) {
			check(page, m[1])
		}
	}
	require.Greater(t, n, 100)
}

func requireShell(t *testing.T, place, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-n")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(script, "…", "x"))
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s: %s", place, out)
}

var (
	shellComment = regexp.MustCompile(`(^|\s)#.*`)
	quoted       = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	commandEnd   = regexp.MustCompile(`\|\||&&|[|;&<>()]|\d?>`)
)

// kplanCommands are the arguments of each kplan that a text of shell runs, without those of
// a command that it runs in turn. Words in quotes are one word, whatever they say.
func kplanCommands(script string) [][]string {
	script = strings.ReplaceAll(script, "\\\n", " ")
	var all [][]string
	for line := range strings.Lines(script) {
		line = quoted.ReplaceAllString(strings.TrimSpace(line), "word")
		line = shellComment.ReplaceAllString(line, "")
		for _, one := range commandEnd.Split(line, -1) {
			words := strings.Fields(one)
			for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo") {
				words = words[1:]
			}
			if len(words) > 1 && words[0] == "kubectl" && words[1] == "kplan" {
				words = words[1:]
			}
			if len(words) == 0 || words[0] != "kplan" {
				continue
			}
			words = words[1:]
			if i := slices.Index(words, "--"); i >= 0 {
				words = words[:i]
			}
			all = append(all, words)
		}
	}
	return all
}

// parses reports what is wrong with the command and the flags of a command line. Where a page
// leaves something out (…), arguments are not counted.
func parses(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	rest = slices.DeleteFunc(slices.Clone(rest), func(w string) bool { return w == "…" || w == "\\" })
	if i := slices.IndexFunc(rest, func(w string) bool { return strings.HasSuffix(w, "|") }); i >= 0 {
		rest = rest[:i]
	}
	for _, w := range rest {
		name, _, _ := strings.Cut(w, "=")
		if !strings.HasPrefix(name, "-") || name == "-" {
			continue
		}
		flag := cmd.Flags().Lookup(strings.TrimLeft(name, "-"))
		flag = cmp.Or(flag, cmd.InheritedFlags().Lookup(strings.TrimLeft(name, "-")))
		if !strings.HasPrefix(name, "--") {
			flag = cmp.Or(cmd.Flags().ShorthandLookup(name[1:2]), cmd.InheritedFlags().ShorthandLookup(name[1:2]))
		}
		if flag == nil && name != "--help" && name != "-h" {
			return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), name)
		}
	}
	if !cmd.Runnable() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), rest[0])
	}
	return nil
}
