package load_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/usage"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// FuzzParse feeds Parse with damaged plans. Whatever the bytes are, the answer
// is a sound plan or diagnostics that are safe to print, and it comes soon.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(f, err)
		for _, x := range a.Files {
			if x.Name == "plan.yaml" {
				f.Add(x.Data, "list=[a, b]")
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, set string) {
		var p *plan.Plan
		var err error
		usage.Bound(t, time.Second, 64<<20, func() {
			p, err = load.Parse("p.yaml", src, load.Options{Set: []string{set}})
		})
		if _, noSet := load.Parse("p.yaml", src, load.Options{}); noSet == nil && err == nil {
			checkPlan(t, p)
		}
		if err != nil {
			checkDiagnostics(t, src, err)
		}
	})
}

// checkPlan holds a good plan to what the rest of the program relies on.
func checkPlan(t *testing.T, p *plan.Plan) {
	t.Helper()
	require.Equal(t, plan.APIVersion, p.APIVersion)
	g := p.Graph()
	require.Len(t, g.Order(), len(p.Steps))
	require.Empty(t, g.Cycles())
	for _, s := range p.Steps {
		require.NotEmpty(t, s.Kind())
		require.Positive(t, p.StepTimeout(s))
		require.Positive(t, p.StepRetry(s).InstallRetries)
		require.GreaterOrEqual(t, *p.StepRetry(s).RetryDelaySeconds, 0.0)
		require.Positive(t, p.StepWebhooks(s).HoldTimeout)
		require.NotEmpty(t, s.Dir)
		require.Nil(t, s.Include)
		require.Nil(t, s.ForEach)
		bind(t, s)
		if s.Wait != nil && s.Deferred() == nil {
			_, err := s.Wait.Condition()
			require.NoError(t, err)
		}
	}
	if slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Last || s.Deferred() != nil || strings.ContainsAny(s.Name, "[/") }) {
		return // such steps are made of others
	}
	// A plan written as JSON is YAML, and means the same.
	p.Vars = nil
	doc, err := json.Marshal(p)
	require.NoError(t, err)
	if bytes.Contains(doc, []byte("${{")) || bytes.ContainsFunc(doc, unicode.IsControl) {
		return
	}
	again, err := load.Parse(p.File, doc, load.Options{})
	require.NoError(t, err)
	doc2, err := json.Marshal(again)
	require.NoError(t, err)
	require.JSONEq(t, string(doc), string(doc2))
}

// bind answers what a step asks for with all kinds of values, or not at all.
func bind(t *testing.T, s plan.Step) {
	t.Helper()
	for _, answer := range []any{nil, "text", int64(1), map[string]any{"a": []any{nil}}} {
		known := plan.Inputs{}
		for _, a := range s.Deferred() {
			if answer != nil {
				known[a] = answer
			}
		}
		got, err := s.Bind(known)
		if err == nil {
			require.Nil(t, got.Deferred())
			require.Equal(t, s.Name, got.Name)
			continue
		}
		ds, ok := err.(document.Diagnostics) //nolint:errorlint // the contract is the type itself
		require.True(t, ok)
		require.NotEmpty(t, ds)
	}
}

// yamlBreak is what ends a line in YAML 1.1.
var yamlBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// checkDiagnostics wants positions that are in the file and text that is
// harmless on a terminal.
func checkDiagnostics(t *testing.T, src []byte, err error) {
	t.Helper()
	ds, ok := err.(document.Diagnostics) //nolint:errorlint // the contract is the type itself
	require.True(t, ok)
	require.NotEmpty(t, ds)
	lines := yamlBreak.Split(string(src), -1)
	for _, d := range ds {
		require.NotEmpty(t, d.Message)
		require.LessOrEqual(t, d.Line, len(lines))
		if d.Line > 0 && d.File == "p.yaml" {
			require.LessOrEqual(t, d.Col, len(lines[d.Line-1])+2)
		}
		require.LessOrEqual(t, strings.Count(d.Excerpt, "\n"), 1)
	}
	for _, r := range err.Error() {
		require.False(t, r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)), "control character %U", r)
	}
}
