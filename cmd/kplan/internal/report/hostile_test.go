package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

// hostile is text as somebody writes it who wants to be more than text.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)> ]]> --> `` ``` | a || **b** [c](javascript:alert(3)) <!-- " +
	"\x1b[31mred\x1b]0;title\a \x00\x01\x7f\u009b2J \u202egnp.exe \ufeff\ufffe\uffff \xff\xfe\xc3 {{.}} ${{ x }} ::error::x %0A &amp; &#60;b&#62; \"q\" 'r' @octocat #1 $x^2$ \u2028\u2029\nsecond line\r\n```\n# third\n"

// oddRun is a run in which every text is s.
func oddRun(s string) *timeline.Timeline {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hook := func() *runner.Webhook {
		return &runner.Webhook{Name: s, Service: s, Cause: s, Configuration: s, Owner: s, Rung: "backed", State: "failed"}
	}
	odd := hook()
	odd.Rung, odd.State = s, s
	other := s + "b"
	events := []runner.Event{
		{Type: runner.TypePlan, Plan: s, Message: s, Steps: []runner.StepInfo{
			{Name: s, Kind: s, Group: s, ConcurrencyGroup: s, Cluster: s, Tags: []string{s}, Needs: []string{other, "gone"}},
			{Name: other, Kind: s, NeedsOn: nil, Needs: nil},
			{Name: s + "c", Kind: s, Needs: []string{s}},
			{Name: "odd state", Kind: s},
		}},
		{Type: runner.TypeGuards, Guards: []runner.Guard{{Step: s, By: s, Webhooks: []string{s}, Objects: 2}}},
		{Type: runner.TypeState, Step: s, State: runner.StateRunning, Attempt: 1, Attempts: 3},
		{Type: runner.TypeState, Step: other, State: runner.StateRunning, Attempt: 1, Attempts: 1},
		{Type: runner.TypeProgress, Step: s, Message: s, Object: s},
		{Type: runner.TypeProgress, Step: s, Message: s},
		{Type: runner.TypeHeld, Step: s, Object: s, Webhook: hook()},
		{Type: runner.TypeWebhook, Step: s, Webhook: hook()},
		{Type: runner.TypeWebhook, Step: s, Webhook: odd},
		{Type: runner.TypeReleased, Step: s, Object: s, Webhook: hook(), Error: s},
		{Type: runner.TypeHook, Step: s, Object: s, Error: s, Hook: &runner.Hook{Event: s, State: runner.HookFailed}},
		{Type: runner.TypeHook, Step: s, Object: "Job/" + s, Hook: &runner.Hook{Event: s, State: runner.HookState(s)}},
		{Type: runner.TypeLog, Step: s, Message: s, Object: s},
		{Type: runner.TypeLog, Step: s, Message: s},
		{Type: runner.TypeOutputs, Step: s, Outputs: map[string]any{s: s, "list": []any{s}}},
		{Type: runner.TypeState, Step: s, State: runner.StateRetrying, Attempt: 1, Attempts: 3, Error: s, Hint: s},
		{Type: runner.TypeState, Step: s, State: runner.StateRunning, Attempt: 2, Attempts: 3},
		{Type: runner.TypeResult, Step: other, Message: s},
		{Type: runner.TypeState, Step: other, State: runner.StateSucceeded, Attempt: 1, Attempts: 1},
		{Type: runner.TypeState, Step: s, State: runner.StateFailed, Attempt: 2, Attempts: 3, Message: s, Error: s, Hint: s},
		{Type: runner.TypeState, Step: s + "c", State: runner.StateBlocked, Message: s},
		{Type: runner.TypeState, Step: "odd state", State: runner.State(s), Message: s},
		{Type: runner.TypeCancel, Message: s, Error: s},
		{Type: runner.TypeDone, State: runner.StateFailed, Error: s},
	}
	for i := range events {
		events[i].Seq, events[i].Time = i+1, start.Add(time.Duration(i)*time.Second)
	}
	return fold(events)
}

// oddRuns are runs that no report may fall over.
func oddRuns() map[string]*timeline.Timeline {
	return map[string]*timeline.Timeline{
		"hostile": oddRun(hostile),
		"markup":  oddRun("**b** *i* _j_ ~~s~~ [c](javascript:alert(1)) ![d](x) <b>e</b> <https://f.example> [x] | g \\* \\| &lt;i&gt; 'q'"),
		"long":    oddRun(strings.Repeat("very long text ☃ ", 2000)),
		"word":    oddRun(strings.Repeat("x", 30000)),
		"ticks":   oddRun(strings.Repeat("`", 5000)),
		"lines":   oddRun(strings.Repeat("\n", 5000) + "x" + strings.Repeat("\n", 5000)),
		"bytes":   oddRun(strings.Repeat("\xff", 5000)),
		"empty":   oddRun(""),
		"nothing": {},
		"no end":  fold([]runner.Event{{Seq: 1, Type: runner.TypePlan, Steps: []runner.StepInfo{{Name: "a"}}}}),
		"no step": fold([]runner.Event{{Seq: 1, Type: runner.TypePlan}, {Seq: 2, Type: runner.TypeDone, State: runner.StateSucceeded}}),
	}
}

// TestHarmless checks that text of every kind stays text in every kind of report.
func TestHarmless(t *testing.T) {
	for name, l := range oddRuns() {
		for _, kind := range Kinds {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				got := string(write(t, kind, l, Meta{Version: hostile, PlanFile: hostile, Record: hostile}))
				require.True(t, utf8.ValidString(got))
				if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Cf, r) }); i >= 0 {
					t.Fatalf("the report has %q", got[max(i-40, 0):min(i+40, len(got))])
				}
				harmless[kind](t, got)
			})
		}
	}
}

var harmless = map[Kind]func(*testing.T, string){
	HTML: func(t *testing.T, s string) {
		t.Helper()
		require.Equal(t, 1, strings.Count(s, "<script"), "only the page's own script")
		require.Equal(t, 1, strings.Count(s, "</script"))
		require.NotContains(t, s, "<img")
		require.NotContains(t, s, "javascript:alert(3)\"")
		require.NotRegexp(t, regexp.MustCompile(`(?i)<[^>"]*\son[a-z]+=`), s, "no handlers of events in tags")
		require.NotContains(t, s, "ZgotmplZ", "nothing stands where its kind of text may not")
	},
	JUnit: func(t *testing.T, s string) {
		t.Helper()
		for d := xml.NewDecoder(strings.NewReader(s)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err)
			}
		}
		require.NotContains(t, s, "<script")
	},
	Markdown: func(t *testing.T, s string) {
		t.Helper()
		require.LessOrEqual(t, len(s), MarkdownLimit)
		fenced, code := "", false
		for l := range strings.Lines(s) {
			l = strings.TrimRight(l, "\n")
			ticks := l[:len(l)-len(strings.TrimLeft(l, "`"))]
			switch {
			case code && l == fenced:
				code = false
			case code:
			case len(ticks) >= 3 && strings.HasSuffix(l, "text"):
				fenced, code = ticks, true
			default:
				l = regexp.MustCompile("`[^`]*`").ReplaceAllString(l, "") // code is text too
				require.NotContains(t, l, "<script")
				require.NotContains(t, l, "<img")
				require.NotContains(t, l, "<!--")
				require.NotRegexp(t, regexp.MustCompile(`(^|[^\\])\[c\]`), l, "no links")
				require.NotRegexp(t, `^# third`, l)
			}
		}
		require.False(t, code, "every block of code ends")
	},
	JSON: func(t *testing.T, s string) {
		t.Helper()
		require.True(t, json.Valid([]byte(s)))
	},
	OTLP: func(t *testing.T, s string) {
		t.Helper()
		require.True(t, json.Valid([]byte(s)))
	},
	Prometheus: func(t *testing.T, s string) {
		t.Helper()
		for l := range strings.Lines(s) {
			require.Regexp(t, `^(# (HELP|TYPE) )?kplan_`, l, "no line is anything but a metric")
		}
	},
}

// TestMarkdownLimit writes a run that has no room, and fits it in.
func TestMarkdownLimit(t *testing.T) {
	l := bigRun(2000)
	whole := MarkdownOf(l, meta, 64<<20)
	for _, limit := range []int{4 << 10, 32 << 10, 128 << 10, MarkdownLimit} {
		got := MarkdownOf(l, meta, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.Valid(got))
		if len(whole) > limit {
			require.Contains(t, string(got), "more st")
			require.Greater(t, len(got), limit/2, "what room there is is used")
		}
	}
}
