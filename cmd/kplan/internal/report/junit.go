package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// How much of logs a JUnit report has: CI systems show failures whole, and keep
// files for long.
const (
	junitFailureLog = 16 << 10
	junitSuiteLog   = 4 << 20
	junitStepLog    = 64 << 10
)

// The XML keeps to what all forms in use have, that of Ant's JUnit tasks and that of
// Jenkins, so that every reader takes it: a testcase has one failure or skipped and
// nothing else; properties and output belong to the suite.
type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []junitSuite
}

type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Package    string          `xml:"package,attr"`
	ID         int             `xml:"id,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Hostname   string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out"`
	Err        string          `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *string       `xml:"skipped"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// junitWriter makes the texts of a JUnit report.
type junitWriter struct{ *run }

// writeJUnit writes the run as a test suite.
func writeJUnit(w io.Writer, r *run) error {
	return junitSuites{Suites: []junitSuite{junitSuiteOf(r, junitSuiteLog)}}.write(w)
}

// junitSuiteOf makes a test suite of a run, and of each step a test case. Failed steps are
// failures, those that did not run or not to their end are skipped. Of all logs it has so
// much.
func junitSuiteOf(r *run, logs int) junitSuite {
	from := junitWriter{r}
	suite := junitSuite{
		Name: token(r.x.Plan(), "plan"), Package: "kplan", Hostname: "localhost", Tests: len(r.Steps()),
		Timestamp: r.Start().UTC().Format("2006-01-02T15:04:05"), Time: decimal(r.elapsed()),
		Properties: from.properties(),
	}
	for _, s := range r.Steps() {
		c := junitCase{Name: token(s.Name, "step"), Class: token(r.x.Plan(), "plan") + "." + token(s.Kind, "step"), Time: decimal(s.Elapsed(r.end))}
		switch s.State {
		case runner.StateFailed:
			suite.Failures++
			c.Failure = &junitFailure{Message: xmlText(line(s.Error)), Type: "failed", Text: xmlText(from.failure(s))}
		case runner.StateSucceeded, runner.StateUnchanged:
		default:
			suite.Skipped++
			why := xmlText(words.Join(": ", string(stateOf(s)), line(r.note(s)), line(s.Error)))
			c.Skipped = &why
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Out = xmlText(from.out(logs))
	if r.x.Err() != "" {
		suite.Err = xmlText(clean(r.x.Err()) + "\n")
	}
	return suite
}

func (s junitSuites) write(w io.Writer) error {
	b, err := xml.MarshalIndent(s, "", "  ")
	if err != nil { // it is plain data: it cannot fail to encode
		return err
	}
	// Ends of lines may stand in texts as they are; attributes here have none.
	b = bytes.ReplaceAll(b, []byte("&#xA;"), []byte("\n"))
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, b)
	return err
}

func (w junitWriter) properties() []junitProperty {
	var all []junitProperty
	add := func(name, value string) {
		if value != "" {
			all = append(all, junitProperty{token(name, "?"), xmlText(line(value))})
		}
	}
	add("kplan.version", w.meta.Version)
	add("kplan.plan_file", w.meta.PlanFile)
	add("kplan.record", w.meta.Record)
	add("kplan.on", w.About())
	add("kplan.state", string(w.state()))
	add("kplan.critical_path", strings.Join(w.critical, " → "))
	for _, s := range w.Steps() {
		step := "step." + s.Name + "."
		if s.Step.Attempts > 1 {
			add(step+"attempt", attempt(s))
		}
		if s.Revision > 0 {
			add(step+"revision", fmt.Sprint(s.Revision))
		}
		if d := s.GroupWait(w.end); d > 0 {
			add(step+"group_wait_seconds", decimal(d))
		}
		for _, h := range s.Hooks {
			add(step+"hook."+h.Object, ui.Hook(h, w.end))
		}
		if len(s.Holds) == 0 {
			continue
		}
		add(step+"held_seconds", decimal(s.HoldTime(w.end)))
		for _, h := range s.HoldsAt(w.end) {
			add(step+"held_by."+holder(h), fmt.Sprintf("%s, longest %s", words.Count(h.Requests, "request"), words.Brief(h.Longest)))
		}
	}
	return all
}

// failure is all that a reader of one failed test case should need.
func (w junitWriter) failure(s *timeline.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", clean(s.Error))
	if s.Hint != "" {
		fmt.Fprintf(&b, "hint: %s\n", clean(s.Hint))
	}
	if s.Message != "" && s.Message != s.Error {
		fmt.Fprintf(&b, "last told: %s\n", clean(s.Message))
	}
	if s.Attempt > 0 {
		fmt.Fprintf(&b, "attempt %s, after %s\n", attempt(s), w.took(s))
	}
	if at := where(s); at != "" {
		fmt.Fprintf(&b, "at %s\n", line(at))
	}
	for i, h := range s.Hooks {
		if i == 0 {
			b.WriteString("\nhooks:\n")
		}
		fmt.Fprintf(&b, "  %s %s\n", hookGlyphs[h.State], line(words.Join(": ", ui.Hook(h, w.end), h.Error)))
	}
	for _, x := range s.Webhooks {
		fmt.Fprintf(&b, "\nwebhook %s stood so at last:\n", line(x.Name))
		for _, rung := range ladder(x) {
			fmt.Fprintf(&b, "  %s %s\n", stands[rung.State], words.Join(": ", line(rung.Name), line(inWords(rung.Cause, rung.Explanation))))
		}
	}
	for _, h := range s.HoldsAt(w.end) {
		fmt.Fprintf(&b, "\n%s held by %s, longest %s: %s\n", words.Count(h.Requests, "request"), line(holder(h)), words.Brief(h.Longest), line(inWords(h.Cause, h.Explanation)))
	}
	if blocks := w.blocks[s.Name]; len(blocks) > 0 {
		fmt.Fprintf(&b, "\nblocks %s\n", line(words.List(blocks, 20)))
	}
	if log := w.log(s, junitFailureLog); log != "" {
		fmt.Fprintf(&b, "\nlog:\n%s", log)
	}
	return b.String()
}

// out is the logs of all steps.
func (w junitWriter) out(room int) string {
	var b strings.Builder
	if room == 0 {
		return ""
	}
	for i, log := range w.logs(room, junitStepLog, junitStepLog) {
		if log != "" {
			fmt.Fprintf(&b, "---- step %s\n%s\n", line(w.Steps()[i].Name), strings.TrimSuffix(log, "\n"))
		}
	}
	return b.String()
}

// token is a text for an attribute that must be there and be one line.
func token(s, without string) string { return cmp.Or(xmlText(line(s)), without) }

// decimal is a duration in seconds.
func decimal(d time.Duration) string { return fmt.Sprintf("%.3f", max(d, 0).Seconds()) }

// xmlText takes out what XML 1.0 cannot have, also escaped: what is left of
// control characters, and the two that are no characters.
func xmlText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r >= 0x20 && r < 0x7f, r >= 0xa0 && r <= 0xd7ff, r >= 0xe000 && r <= 0xfffd, r >= 0x10000 && r <= 0x10ffff:
			return r
		}
		return -1
	}, s)
}
