package explain_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/doctor/explain"
	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/internal/usage"
	"github.com/kplan-dev/kplan/webhook"
)

var update = flag.Bool("update", false, "write testdata/explanations.golden anew")

// sample is an error with what stands behind the ## before it.
type sample struct{ title, text string }

func samples(t testing.TB, file string) []sample {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []sample
	for i, part := range regexp.MustCompile(`(?m)^## `).Split(string(b), -1) {
		if i > 0 {
			title, text, _ := strings.Cut(part, "\n")
			all = append(all, sample{title, strings.TrimRight(text, "\n")})
		}
	}
	return all
}

// The errors of public threads and other texts, each with its class and rule; what is said of
// them and of the fixtures of package webhook is in testdata/explanations.golden.
func TestThreads(t *testing.T) {
	threads := samples(t, "testdata/threads.txt")
	require.GreaterOrEqual(t, len(threads), 40)
	for _, s := range threads {
		require.Regexp(t, `^[\w.-]+/[\w.-]+#\d+ [a-z]+ [a-z-]+$`, s.title)
	}
	var golden strings.Builder
	for _, s := range append(threads, samples(t, "testdata/wordings.txt")...) {
		all := explain.Text(s.text)
		if len(all) == 0 || !strings.HasSuffix(s.title, fmt.Sprintf(" %s %s", all[0].Class, all[0].Rule)) {
			t.Errorf("%s: explained as\n%s", s.title, told(all))
		}
		fmt.Fprintf(&golden, "## %s\n%s", s.title, told(all))
	}
	for _, file := range []string{"errors.txt", "wordings.txt"} {
		for _, s := range samples(t, "../../webhook/testdata/"+file) {
			fmt.Fprintf(&golden, "## %s\n%s", s.title, told(explain.Text(s.text)))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/explanations.golden", []byte(golden.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/explanations.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), golden.String())
}

// told is what is said of errors, in short.
func told(all []explain.Explanation) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", e.Class, e.Rule, e.What)
		for _, o := range e.About {
			fmt.Fprintf(&b, "\tabout %s\n", o)
		}
		if e.Reason != "" {
			fmt.Fprintf(&b, "\treason %s\n", strings.ReplaceAll(e.Reason, "\n", "\n\t       "))
		}
		if len(e.Next) > 0 {
			fmt.Fprintf(&b, "\tnext %s\n", e.Next[0])
		}
	}
	return b.String()
}

// Every error of the fixtures of package webhook is explained, with the class that it has there.
func TestFixtures(t *testing.T) {
	for _, file := range []string{"errors.txt", "wordings.txt"} {
		for _, s := range samples(t, "../../webhook/testdata/"+file) {
			all := explain.Text(s.text)
			require.NotEmpty(t, all, s.title)
			f := webhook.ClassifyError(errors.New(s.text))
			if f.Class == webhook.None || f.Kind == webhook.Definition {
				continue
			}
			require.True(t, slices.ContainsFunc(all, func(e explain.Explanation) bool { return e.Class == explain.Class(f.Class) }),
				"%s: no explanation is %s", s.title, f.Class)
		}
	}
}

// A denial is one explanation whatever its reason quotes, and others beside it are not lost.
func TestSeveralErrors(t *testing.T) {
	for _, test := range []struct {
		text  string
		rules []string
	}{
		{"admission webhook \"v.example.io\" denied the request: 2 errors occurred:\n\t* failed calling webhook \"x\": EOF\n\t* quota", []string{"webhook-denied"}},
		{"2 errors occurred:\n\t* admission webhook \"b.example.io\" denied the request: no\n\t* widgets.example.io \"w\" already exists", []string{"webhook-denied", "already-exists"}},
		{"Helm install failed: 2 errors occurred: * widgets.example.io \"w\" already exists * namespaces \"x\" not found", []string{"already-exists", "namespace-missing"}},
		{`cannot patch "a": Internal error occurred: failed calling webhook "v": failed to call webhook: Post "https://w.ns.svc:443/v": EOF && cannot patch "b" with kind Job: Job.batch "b" is invalid: spec.template: Invalid value: x: field is immutable`, []string{"webhook-closed", "field-immutable"}},
		{`[namespaces "x" not found, namespaces "y" not found]`, []string{"namespace-missing"}},
		{"timed out waiting for the condition\nnamespaces \"x\" not found", []string{"namespace-missing"}},
		{"all is well\nError: nothing of this is known", nil},
		{"", nil},
	} {
		var rules []string
		for _, e := range explain.Text(test.text) {
			rules = append(rules, e.Rule)
		}
		require.Equal(t, test.rules, rules, test.text)
	}
}

// A denial's reason may have lines of its own; what a log says after it is none of it.
func TestReasonOfSeveralLines(t *testing.T) {
	all := explain.Text("admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\nresource Pod/default/p was blocked due to the following policies\n\nrequire-labels:\n  check: 'label team is missing'\nE0913 16:58:09.631419 1 event.go:200] something else")
	require.Len(t, all, 1)
	require.Equal(t, "resource Pod/default/p was blocked due to the following policies\n\nrequire-labels:\n  check: 'label team is missing'", all[0].Reason)
}

// Secrets of the text are not repeated, and names that a shell would obey neither.
func TestNothingPerilousIsRepeated(t *testing.T) {
	const secret = "s3cr3t-Value"
	for _, text := range []string{
		`admission webhook "v.example.io" denied the request: password=` + secret + ` is too short`,
		`admission webhook "v.example.io" denied the request: spec: {"token": "` + secret + `"}`,
		`admission webhook "v.example.io" denied the request: header Authorization: Bearer ` + secret,
		`admission webhook "v.example.io" denied the request: cannot reach https://user:` + secret + `@db.example.com/`,
		`failed calling webhook "v.example.io": failed to call webhook: boom apiKey="` + secret + `"`,
		`etcdserver: request timed out password: ` + secret,
		`release "$(` + secret + `)" failed: another operation (install/upgrade/rollback) is in progress`,
		`"` + secret + `;rm -rf /" has no deployed releases`,
		`namespaces "-f` + secret + `" not found`,
	} {
		for _, e := range explain.Text(text) {
			shown := fmt.Sprint(e.What, e.Reason, e.About, e.Causes, e.Next)
			require.NotContains(t, shown, secret, text)
			require.NotContains(t, shown, "rm -rf", text)
		}
	}
}

// A whole log is explained by its last errors, and the same text always alike.
func TestLogs(t *testing.T) {
	var log strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&log, "2026-11-22T10:00:00Z INFO reconciled %d, nothing to do here at all, and no error\n", i)
	}
	for i := range 50 {
		fmt.Fprintf(&log, "E1122 10:00:00.0 1 x.go:1] namespaces \"n%d\" not found\n", i)
	}
	var all []explain.Explanation
	usage.Bound(t, 5*time.Second, 1<<28, func() { all = explain.Text(log.String()) })
	require.Len(t, all, 10)
	require.Equal(t, "namespace n49 does not exist", all[9].What)
	require.Equal(t, all, explain.Text(log.String()))
}

// Whatever the text, what is said of it is complete, short, and nothing for a terminal to obey.
func FuzzText(f *testing.F) {
	for _, file := range []string{"testdata/threads.txt", "../../webhook/testdata/errors.txt", "../../webhook/testdata/wordings.txt"} {
		for _, s := range samples(f, file) {
			f.Add(s.text)
		}
	}
	f.Add("\x1b[31mError: namespaces \"\x1b[0mx\" not found\u202e")
	f.Add(strings.Repeat(`{"error":"{\"error\":\"`, 50))
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		for _, e := range explain.Text(text) {
			require.Contains(t, explain.Classes, e.Class)
			require.NotEmpty(t, e.Rule)
			require.NotEmpty(t, e.What)
			require.NotEmpty(t, e.Causes)
			require.NotEmpty(t, e.Next)
			for _, s := range append(append([]string{e.What, e.Reason, e.Words}, e.Causes...), e.Next...) {
				require.True(t, utf8.ValidString(s))
				require.Less(t, len(s), 8<<10)
				require.Negative(t, strings.IndexFunc(s, clean.Perilous), "%q", s)
			}
			for _, o := range e.About {
				require.Regexp(t, `^[A-Za-z0-9._:/@-]+$`, o.String())
			}
		}
		require.Less(t, time.Since(start), 10*time.Second)
	})
}
