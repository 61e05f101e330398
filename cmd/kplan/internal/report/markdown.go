package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// MarkdownLimit is the most bytes that GitHub takes for the summary of one step
// of a workflow (1 MiB). A file that is larger is not shown at all.
const MarkdownLimit = 1 << 20

// How much of a run Markdown tells: it is read in one go.
const (
	markdownFailures = 30
	markdownLogLines = 40
	markdownLogBytes = 8 << 10
	markdownCause    = 4 << 10
	markdownCell     = 300
)

// MarkdownOf writes a run as Markdown of at most limit bytes, with GitHub's
// tables and <details>. What has no room is counted.
func MarkdownOf(t *timeline.Timeline, m Meta, limit int) []byte {
	p := &page{run: newRun(t, m), limit: limit}
	p.head()
	p.orders()
	p.failures()
	p.table("Steps", p.steps(), "step")
	p.table("Hooks", p.hooks(), "hook")
	p.table("Webhooks", p.webhooks(), "webhook")
	p.foot()
	return p.Bytes()
}

// page is a Markdown text that grows to a limit.
type page struct {
	*run
	bytes.Buffer
	limit int
}

// reserve is kept free for what comes last and for what says that something is
// left out.
const reserve = 2 << 10

// fits reports whether n more bytes have room.
func (p *page) fits(n int) bool { return p.Len()+n+reserve <= p.limit }

// add writes a piece if it has room, and reports whether it had.
func (p *page) add(piece string) bool {
	if !p.fits(len(piece)) {
		return false
	}
	p.WriteString(piece)
	return true
}

func (p *page) head() {
	state := p.state()
	how := "Took"
	if !p.Ended() {
		how = "Not over after"
	}
	fmt.Fprintf(p, "## %s %s: %s\n\n", glyphs[state], span(p.x.Plan(), "plan"), state)
	about := words.Prefixed(" on ", quote(p.About(), markdownCell))
	fmt.Fprintf(p, "%s %s%s, started %s.\n", how, words.Brief(p.elapsed()), about, clock(p.Start()))
	var parts []string
	for _, c := range p.counts() {
		parts = append(parts, fmt.Sprintf("%s %d %s", glyphs[c.State], c.N, c.State))
	}
	if len(parts) > 0 {
		fmt.Fprintf(p, "\n%s\n", strings.Join(parts, " · "))
	}
	if p.x.Err() != "" {
		fmt.Fprintf(p, "\n**Stopped:** %s\n", quote(p.x.Err(), markdownCause))
	}
	if len(p.critical) > 1 {
		names := make([]string, len(p.critical))
		for i, name := range p.critical {
			names[i] = fmt.Sprintf("%s (%s)", escape(line(name)), p.took(p.Step(name)))
		}
		fmt.Fprintf(p, "\nCritical path: %s\n", cut(strings.Join(names, " → "), markdownCause))
	}
}

// orders tells what somebody ordered who watched the run.
func (p *page) orders() {
	for _, n := range p.Notices() {
		if n.Type != runner.TypeCancel {
			p.add(fmt.Sprintf("\n- %s %s\n", p.offset(n.Time), quote(notice(n), markdownCell)))
		}
	}
}

func (p *page) failures() {
	all := p.run.failures()
	if len(all) == 0 {
		return
	}
	p.add("\n### What failed\n")
	for i, f := range all {
		if i == markdownFailures || !p.add(p.failure(f)) {
			more := 0
			for _, f := range all[i:] {
				more += 1 + len(f.same)
			}
			fmt.Fprintf(p, "\n… and %s that failed.\n", words.Count(more, "more step"))
			return
		}
	}
}

func (p *page) failure(s *failure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n#### %s %s\n\n", glyphs[s.State], span(s.Name, "step"))
	if s.Attempt > 0 {
		fmt.Fprintf(&b, "Failed after %s, attempt %s", p.took(s.Step), attempt(s.Step))
		if at := where(s.Step); at != "" {
			fmt.Fprintf(&b, ", at %s", quote(at, markdownCell))
		}
		b.WriteString(".\n\n")
	}
	b.WriteString(fence(cut(clean(s.Error), markdownCause)))
	if s.Message != "" {
		fmt.Fprintf(&b, "\nLast told: %s\n", quote(s.Message, markdownCause))
	}
	if s.Hint != "" {
		fmt.Fprintf(&b, "\n**Hint:** %s\n", quote(s.Hint, markdownCause))
	}
	for _, w := range s.Webhooks {
		b.WriteString("\n" + p.ladder(w))
	}
	for _, h := range s.Holds {
		if h.Failed > 0 {
			fmt.Fprintf(&b, "\n%s held by %s given up, the longest after %s: %s\n", fmt.Sprintf("%d of %s", h.Failed, words.Count(h.Requests, "request")),
				escape(line(holder(h))), words.Brief(h.Longest), quote(inWords(h.Cause, h.Explanation), markdownCause))
		}
	}
	if blocks := p.blocks[s.Name]; len(blocks) > 0 {
		fmt.Fprintf(&b, "\nBlocks %s.\n", quote(words.List(blocks, 10), markdownCause))
	}
	if len(s.same) > 0 {
		names := make([]string, len(s.same))
		for i, other := range s.same {
			names[i] = other.Name
		}
		fmt.Fprintf(&b, "\nThe same cause failed %s.\n", quote(words.List(names, 30), markdownCause))
	}
	if log := lastLines(p.log(s.Step, markdownLogBytes), markdownLogLines); log != "" {
		fmt.Fprintf(&b, "\n<details><summary>Log</summary>\n\n%s\n</details>\n", fence(log))
	}
	return b.String()
}

// ladder is how a webhook stood when the step was last told of it.
func (p *page) ladder(w *runner.WebhookStatus) string {
	var rungs []string
	cause := ""
	for _, r := range ladder(w) {
		text := stands[r.State] + " " + escape(line(r.Name))
		if r.State != timeline.Ready && r.State != "" {
			text, cause = "**"+text+"**", inWords(r.Cause, r.Explanation)
		}
		rungs = append(rungs, text)
	}
	text := fmt.Sprintf("Webhook %s stood at last: %s", quote(w.Name, markdownCell), strings.Join(rungs, " → "))
	if cause != "" {
		text += ": " + quote(cause, markdownCause)
	}
	return text + "\n"
}

func (p *page) steps() [][]string {
	rows := [][]string{{"step", "state", "attempt", "took", "held", "note"}}
	for _, s := range p.Steps() {
		note := p.note(s)
		if s.State == runner.StateFailed { // it was told of above
			note = ""
		}
		note = words.Join("; ", note, ui.GroupWait(s.Step, p.end))
		rows = append(rows, []string{s.Name, cmp.Or(glyphs[s.State], "?") + " " + string(stateOf(s)), attempt(s), p.took(s), p.held(s), note})
	}
	if p.x.ManyClusters() {
		rows[0] = slices.Insert(rows[0], 2, "cluster")
		for i, s := range p.Steps() {
			rows[i+1] = slices.Insert(rows[i+1], 2, s.Cluster)
		}
	}
	return rows
}

// hooks are those of the steps' charts.
func (p *page) hooks() [][]string {
	rows := [][]string{{"hook", "step", "event", "weight", "state", "took", "note"}}
	for _, s := range p.Steps() {
		for _, h := range s.Hooks {
			rows = append(rows, []string{
				h.Object, s.Name, h.Event, fmt.Sprint(h.Weight), words.Join(" ", hookGlyphs[h.State], string(h.State)), words.Brief(h.Elapsed(p.end)), h.Error,
			})
		}
	}
	return rows
}

func (p *page) webhooks() [][]string {
	rows := [][]string{{"webhook", "service", "held", "longest", "in all", "stood at last"}}
	for _, l := range p.Webhooks() {
		held := words.Count(l.Requests, "request")
		if l.Failed > 0 {
			held += fmt.Sprintf(", %d given up", l.Failed)
		}
		stood := ""
		if now, ok := l.Now(); ok {
			stood = stands[now.State] + " " + words.Join(": ", now.Name, inWords(now.Cause, now.Explanation))
		}
		rows = append(rows, []string{title(l), l.Service, held, brief(l.LongestAt(p.end)), brief(l.HoldTime(p.end)), stood})
	}
	return rows
}

// table writes rows of cells below the first, as many as have room.
func (p *page) table(name string, rows [][]string, noun string) {
	head, rows := rows[0], rows[1:]
	if len(rows) == 0 || !p.add(fmt.Sprintf("\n### %s\n\n| %s |\n|%s\n", name, strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))) {
		return
	}
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, cell := range row {
			cells[j] = quote(cell, markdownCell)
		}
		if !p.add("| " + strings.Join(cells, " | ") + " |\n") {
			fmt.Fprintf(p, "\n… and %s that have no room here.\n", words.Count(len(rows)-i, "more "+noun))
			return
		}
	}
}

func (p *page) foot() {
	from := func(prefix, text string) string { return words.Prefixed(prefix, quote(text, markdownCell)) }
	if about := words.Join(" · ", from("kplan ", p.meta.Version), from("", p.meta.PlanFile), from("from ", p.meta.Record)); about != "" {
		fmt.Fprintf(p, "\n<sub>%s</sub>\n", about)
	}
}

// brief writes a duration; "" for none.
func brief(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return words.Brief(d)
}

// clock writes a time whose reader may be anywhere; "" for none.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// quote writes the start of a text on one line, as Markdown shows it.
func quote(s string, limit int) string { return escape(cut(line(s), limit)) }

// escape makes a line of text that Markdown shows as it is, also in a table.
func escape(s string) string { return markup.Replace(s) }

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;",
	"@", "&#64;", // else GitHub takes what follows for somebody's name
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "#", `\#`, "!", `\!`, "$", `\$`)

// span writes a name as code. What would end it is taken out.
func span(name, without string) string {
	return "`" + cmp.Or(cut(strings.ReplaceAll(line(name), "`", "'"), markdownCell), without) + "`"
}

// fence writes text as a block of code, between fences longer than any in it.
func fence(s string) string {
	f := "```"
	for strings.Contains(s, f) {
		f += "`"
	}
	return f + "text\n" + strings.TrimRight(s, "\n") + "\n" + f + "\n"
}

// lastLines keeps the last n lines.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) <= n {
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("… %s before\n", words.Count(len(lines)-n, "line")) + strings.Join(lines[len(lines)-n:], "\n")
}
