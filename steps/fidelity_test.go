package steps_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// What kplan leaves of a chart is what the Helm command leaves: the release's Secrets,
// the objects, and the writes that made them, in their order.
//
// testdata/charts has the charts, with two values files each. The text before the
// files says what they are; see read for its fields.
func TestFidelity(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	files, err := filepath.Glob("testdata/charts/*.txtar")
	require.NoError(t, err)
	require.Greater(t, len(files), 25)
	commands := commandsOf(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read(t, file).compare(t, lab, commands["helm3"])
		})
		t.Run(name+" by Helm 4", func(t *testing.T) {
			t.Parallel()
			c := read(t, file)
			c.engine = "helm4"
			if name == "hooks-jobs" { // Helm 4 fails at a hook whose name is generated
				ours := c.side(t, lab, "")
				ours.byKplan(t, "one.yaml", "chart", false)
				ours.byKplan(t, "two.yaml", c.next, false)
				return
			}
			c.compare(t, lab, commands["helm4"])
		})
	}
}

// compare installs and upgrades the chart with the Helm command and with kplan.
func (c *sample) compare(t *testing.T, lab *labtest.Lab, helm string) {
	t.Helper()
	theirs, ours := c.side(t, lab, helm), c.side(t, lab, helm)

	theirs.byHelm(t, "one.yaml", "chart", c.fails == "one")
	ours.byKplan(t, "one.yaml", "chart", c.fails == "one")
	requireSame(t, "after the install", theirs.left(t), ours.left(t))
	if c.fails == "one" {
		return
	}

	theirs.byHelm(t, "two.yaml", c.next, c.fails == "two")
	ours.byKplan(t, "two.yaml", c.next, c.fails == "two")
	requireSame(t, "after the upgrade", theirs.left(t), ours.left(t))

	for _, command := range c.then {
		args := []string{command, "rel"}
		require.Equal(t, theirs.run(t, args...), ours.run(t, args...))
		requireSame(t, "after helm "+command, theirs.left(t), ours.left(t))
	}
}

// What kplan left, the Helm command shows as its own, and either goes on with what the
// other one made.
func TestFidelityOfCommands(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	helm := labtest.Helm(t)
	commands := [][]string{
		{"list", "-o", "json"},
		{"list", "--superseded", "-o", "yaml"},
		{"history", "rel", "-o", "json"},
		{"status", "rel", "-o", "json"},
		{"get", "all", "rel"},
		{"get", "values", "rel", "--all"},
		{"get", "values", "rel", "--revision", "1", "-o", "json"},
		{"get", "metadata", "rel", "-o", "json"},
		{"get", "notes", "rel"},
		{"get", "hooks", "rel"},
		{"get", "manifest", "rel"},
	}
	for _, name := range []string{"plain", "changed-chart", "hooks-many-events"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := read(t, "testdata/charts/"+name+".txtar")
			c.masks = append(c.masks, regexp.MustCompile(`"(createdAt|modifiedAt)":"\d+"`), regexp.MustCompile(`"labels":{[^}]*}`))
			first := c.side(t, lab, helm)
			first.byHelm(t, "one.yaml", "chart", false)
			first.byHelm(t, "two.yaml", c.next, false)
			want := first.left(t)
			for who, upgrade := range map[string][2]func(*side, *testing.T, string, string, bool){
				"kplan":                        {(*side).byKplan, (*side).byKplan},
				"the Helm command after kplan": {(*side).byKplan, (*side).byHelm},
				"kplan after the Helm command": {(*side).byHelm, (*side).byKplan},
			} {
				second := c.side(t, lab, helm)
				upgrade[0](second, t, "one.yaml", "chart", false)
				upgrade[1](second, t, "two.yaml", c.next, false)

				requireSame(t, who, want, second.left(t))
				for _, args := range commands {
					require.Equal(t, first.run(t, args...), second.run(t, args...), "%s: helm %s", who, args)
				}
			}
		})
	}
}

// sample is a chart of testdata/charts.
type sample struct {
	files []txtar.File
	// engine is kplan's version of Helm; empty for the default.
	engine string
	// next is the folder of the chart that the upgrade takes.
	next string
	// masks are what is made by chance, or by the API server.
	masks []*regexp.Regexp
	// crlf are the files with lines that end as on Windows.
	crlf []string
	// wait waits until all is ready.
	wait bool
	// then are commands of Helm that are run in the end.
	then []string
	// fails is which of "one" and "two" is to fail.
	fails string
}

// read reads a chart. Fields stand before its files, one on a line:
//
//	mask: PATTERN    what is made by chance
//	crlf: FILE…      files with lines that end as on Windows
//	wait: ready      waits until all is ready
//	then: COMMAND…   commands of Helm to run in the end: test, rollback, uninstall
//	fails: one|two   whose values make the release fail
//
// In its files NAMESPACE is the release's namespace and LONG some 200 kB of text. The
// files of the folder chart2, if there is one, are the chart of the upgrade.
func read(t *testing.T, file string) *sample {
	t.Helper()
	a, err := txtar.ParseFile(file)
	require.NoError(t, err)
	c := &sample{files: a.Files, next: "chart"}
	for line := range strings.Lines(string(a.Comment)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "mask":
			c.masks = append(c.masks, regexp.MustCompile(value))
		case "crlf":
			c.crlf = strings.Fields(value)
		case "wait":
			c.wait = true
		case "then":
			c.then = strings.Fields(value)
		case "fails":
			c.fails = value
		}
	}
	if slices.ContainsFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "chart2/") }) {
		c.next = "chart2"
	}
	return c
}

// side is one of the two that are compared: a release, rel, in a namespace of its own.
type side struct {
	*sample
	helm, namespace, dir string
	// lab is behind a proxy that notes the writes.
	lab    *labtest.Lab
	direct *labtest.Lab
	writes *writes
}

// side writes the chart for a namespace of its own.
func (c *sample) side(t *testing.T, lab *labtest.Lab, helm string) *side {
	t.Helper()
	s := &side{sample: c, helm: helm, namespace: lab.Namespace(t), dir: t.TempDir(), direct: lab, writes: &writes{}}
	s.lab = lab.Behind(t, s.writes.note)
	replace := strings.NewReplacer("NAMESPACE", s.namespace, "LONG", strings.Repeat("long ", 40_000))
	for i, f := range c.files {
		text := replace.Replace(string(f.Data))
		if slices.Contains(c.crlf, f.Name) {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		path := filepath.Join(s.dir, filepath.FromSlash(f.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		at := time.Date(2024, time.May, 1, 12, 0, i, 0, time.UTC) // Helm 4 keeps it
		require.NoError(t, os.Chtimes(path, at, at))
	}
	t.Cleanup(func() { s.writes.undo(lab.Config(t)) })
	return s
}

// byHelm installs or upgrades with the Helm command.
func (s *side) byHelm(t *testing.T, values, chart string, fails bool) {
	t.Helper()
	args := []string{"upgrade", "--install", "rel", filepath.Join(s.dir, chart), "-f", filepath.Join(s.dir, values)}
	if s.wait {
		args = append(args, "--wait")
	}
	out, err := s.command(t.Context(), args...)
	for tries := 1; err != nil && tries < 5 && strings.Contains(out, "ensure CRDs are installed first"); tries++ {
		// Helm does not wait until what it made a definition of is served, and is run again.
		s.writes.forget()
		out, err = s.command(t.Context(), args...)
	}
	require.Equal(t, fails, err != nil, "helm: %s", out)
}

// byKplan installs or upgrades with a plan of one step.
func (s *side) byKplan(t *testing.T, values, chart string, fails bool) {
	t.Helper()
	wait := "hooks"
	if s.wait {
		wait = "ready"
	}
	out := runPlan(t, s.lab, s.namespace, fmt.Sprintf("\n- name: rel\n  timeout: 2m\n  helm: {chart: %s, namespace: NS, values_files: [%s], wait: %s, engine: %s}\n",
		filepath.Join(s.dir, chart), filepath.Join(s.dir, values), wait, cmp.Or(s.engine, "helm3")))
	require.Equal(t, fails, out.err != nil, "kplan: %v", out.err)
}

// run is what the Helm command says, with what differs by chance taken out.
func (s *side) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(t.Context(), args...)
	require.NoError(t, err, out)
	return s.plain(out)
}

// command runs the Helm command with a home of its own.
func (s *side) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.helm, append(args, "--namespace", s.namespace, "--kubeconfig", s.lab.Kubeconfig)...)
	home := filepath.Join(s.dir, "home")
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

var (
	times = regexp.MustCompile(`20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d| [+-]\d{4} \w+)?`)
	// noise are lines of client-go, which Helm writes among its own.
	noise = regexp.MustCompile(`(?m)^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n`)
	dates = regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d 20\d\d`)
)

// plain is text without what differs by chance.
func (s *side) plain(text string) string {
	text = strings.ReplaceAll(text, s.namespace, "NAMESPACE")
	text = noise.ReplaceAllString(text, "")
	text = dates.ReplaceAllString(times.ReplaceAllString(text, "TIME"), "TIME")
	for _, m := range s.masks {
		text = m.ReplaceAllString(text, "CHANCE")
	}
	return text
}

// requireSame compares what two sides left.
func requireSame(t *testing.T, when string, want, got left) {
	t.Helper()
	for _, part := range []struct{ what, want, got string }{
		{"the release's Secrets", want.releases, got.releases},
		{"the objects", want.objects, got.objects},
		{"what was written, in its order", want.writes, got.writes},
	} {
		require.Equal(t, part.want, part.got, "%s, %s: Helm's are expected", when, part.what)
	}
}
