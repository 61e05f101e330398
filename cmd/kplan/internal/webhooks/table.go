package webhooks

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/webhook"
)

// Style says how to draw.
type Style struct {
	// Colour allows colours. They only repeat what the signs say.
	Colour bool
	// ASCII demands plain signs.
	ASCII bool
	// Wide shows more columns, and all of the rules. Its rows are not folded.
	Wide bool
	// Fold makes one row of webhooks that differ in what they guard alone; see fold.
	Fold bool
	// Failing leaves out of the table what is not known to miss a rung. The summary
	// counts all.
	Failing bool
	// Width is that of the terminal, which columns are cut to; 0 cuts nothing.
	Width int
	// Now is the time to count ages from.
	Now time.Time
}

// widest is how much of a reason the wide table shows; the rest is below it.
const widest = 80

// column is one of the table.
type column struct {
	title string
	cell  func(group) string
	// least is how far it may be cut; 0 leaves it whole.
	least int
}

func (s Style) columns() []column {
	columns := []column{
		{"WEBHOOK", group.name, 20},
		{"KIND", func(g group) string { return string(g[0].Kind) }, 0},
		{"GUARDS", func(g group) string { return brief(g.guards()) }, 12},
		{"POLICY", group.policy, 0},
		{"SERVICE", func(g group) string { return g[0].called() }, 12},
		{"LADDER", func(g group) string { return s.ladder(g[0].Ladder) }, 0},
		{"SINCE", func(g group) string { return s.age(g[0].since()) }, 0},
		{"OWNER", func(g group) string { return owner(g[0]) }, 8},
	}
	if !s.Wide {
		return columns
	}
	columns[2].cell = func(g group) string { return strings.Join(g.guards(), "; ") }
	return append(columns,
		column{"TIMEOUT", func(g group) string { return fmt.Sprintf("%gs", g[0].Timeout) }, 0},
		column{"SIDE-EFFECTS", func(g group) string { return cmp.Or(g[0].SideEffects, "-") }, 0},
		column{"NAMESPACES", func(g group) string { return cmp.Or(g[0].NamespaceMatch, "-") }, 0},
		column{"OBJECTS", func(g group) string { return cmp.Or(g[0].ObjectMatch, "-") }, 0},
		column{"LOWEST", func(g group) string { return s.cut(words.Line(stands(g[0])), widest) }, 0},
		column{"READ-FROM", func(g group) string { return cmp.Or(g[0].Lowest.Source.String(), "-") }, 0},
	)
}

// signs of the states of a rung; a rung that a webhook does not have is a dash.
var (
	signs = map[webhook.State]string{webhook.Ready: "●", webhook.Waiting: "○", webhook.Failed: "✗", webhook.Unknown: "?"}
	ascii = map[webhook.State]string{webhook.Ready: "+", webhook.Waiting: "o", webhook.Failed: "x", webhook.Unknown: "?"}
	paint = map[webhook.State]string{webhook.Ready: "32", webhook.Waiting: "33;1", webhook.Failed: "31;1", webhook.Unknown: "2"}
)

func (s Style) ladder(l webhook.Ladder) string {
	cells := make([]string, len(webhook.Rungs))
	for i, rung := range webhook.Rungs {
		r, ok := l.At(rung)
		switch {
		case !ok:
			cells[i] = "-"
		case s.ASCII:
			cells[i] = ascii[r.State]
		default:
			cells[i] = signs[r.State]
		}
	}
	return strings.Join(cells, " ")
}

// colours puts the signs of a ladder into their colours.
func (s Style) colours(cell string, l webhook.Ladder) string {
	cells := strings.Split(cell, " ")
	for i, rung := range webhook.Rungs {
		if r, ok := l.At(rung); ok {
			cells[i] = s.Paint(paint[r.State], cells[i])
		}
	}
	return strings.Join(cells, " ")
}

// Paint colours a text by the code of an ANSI colour.
func (s Style) Paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(s.Now.Sub(t), 0))
}

// gap is between two columns.
const gap = "  "

// Table writes a line for each webhook, and what keeps the failing ones from
// answering.
func (s Style) Table(out io.Writer, all []Webhook) error {
	shown := all
	if s.Failing {
		shown = slices.DeleteFunc(slices.Clone(all), func(w Webhook) bool { return !w.Failing() })
	}
	var b strings.Builder
	groups := s.groups(shown)
	if len(groups) > 0 {
		s.rows(&b, groups)
	}
	b.WriteString(s.Summary(all))
	if len(groups) < len(shown) {
		b.WriteString(words.Fill("a row may stand for several webhooks: --all has one for each", s.Width, "") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// rows writes a line for each group, and an empty one.
func (s Style) rows(b *strings.Builder, all []group) {
	columns, rows, widths := s.layout(s.columns(), all)
	for _, row := range rows {
		for j := range row {
			row[j] = s.cut(row[j], widths[j])
		}
	}
	b.WriteString(words.Table(rows, func(i, j int, cell, pad string) string {
		switch {
		case i == 0:
			cell = s.Paint("1", cell)
		case columns[j].title == "LADDER":
			cell = s.colours(cell, all[i-1][0].Ladder)
		case j == 0 && all[i-1][0].Failing():
			cell = s.Paint("31;1", cell)
		}
		return cell + pad
	}) + "\n")
}

// layout makes the cells of the columns, titles first, and finds their widths.
// On a narrow terminal columns are cut, and then left out.
func (s Style) layout(columns []column, all []group) ([]column, [][]string, []int) {
	rows := make([][]string, len(all)+1)
	widths := make([]int, len(columns))
	for j, c := range columns {
		rows[0] = append(rows[0], c.title)
		for i, g := range all {
			rows[i+1] = append(rows[i+1], words.Line(c.cell(g)))
		}
		for _, row := range rows {
			widths[j] = max(widths[j], words.Width(row[j]))
		}
	}
	if s.fit(columns, widths) {
		return columns, rows, widths
	}
	for _, title := range []string{"OWNER", "KIND", "GUARDS", "POLICY"} {
		if i := slices.IndexFunc(columns, func(c column) bool { return c.title == title }); i >= 0 {
			return s.layout(slices.Delete(columns, i, i+1), all)
		}
	}
	return columns, rows, widths
}

// fit takes width from the widest columns that may be cut until all fit, and
// tells whether they do.
func (s Style) fit(columns []column, widths []int) bool {
	if s.Width == 0 || s.Wide {
		return true
	}
	for {
		total, most := -len(gap), -1
		for j, w := range widths {
			total += w + len(gap)
			if least := columns[j].least; least > 0 && w > least && (most < 0 || w-least > widths[most]-columns[most].least) {
				most = j
			}
		}
		if total <= s.Width || most < 0 {
			return total <= s.Width
		}
		widths[most]--
	}
}

func (s Style) cut(text string, width int) string {
	if s.ASCII {
		return words.Cut(text, width, "~")
	}
	return words.Cut(text, width, "…")
}

// Summary says how many webhooks there are, and why some cannot answer.
func (s Style) Summary(all []Webhook) string {
	var reasons []string
	because, means := map[string][]string{}, map[string]string{}
	failing := 0
	for _, w := range all {
		if !w.Failing() {
			continue
		}
		failing++
		why := words.Line(w.Lowest.String())
		if because[why] == nil {
			reasons = append(reasons, why)
		}
		because[why] = append(because[why], words.Line(w.among(all)))
		means[why] = w.Explanation
	}
	total := words.Count(len(all), "webhook")
	if failing == 0 {
		return total + ", nothing that was read keeps any from answering\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", total, s.Paint("31;1", fmt.Sprintf("%d cannot answer now:", failing)))
	for _, why := range reasons {
		b.WriteString(words.Fill(why, s.Width, "  ") + "\n")
		if means[why] != "" {
			b.WriteString(words.Fill("in words: "+means[why], s.Width, "    ") + "\n")
		}
		b.WriteString(words.Fill(some(because[why]), s.Width, "    ") + "\n")
	}
	return b.String()
}

// some names a few of many.
func some(names []string) string {
	const few = 3
	if len(names) <= few+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Line is one line about one webhook, for a log.
func (s Style) Line(w Webhook) string {
	return words.Line(w.ID()) + gap + string(w.Kind) + gap + s.colours(s.ladder(w.Ladder), w.Ladder) + gap + words.Line(stands(w))
}

// stands says how a webhook stands.
func stands(w Webhook) string {
	switch {
	case w.Lowest.Rung == "":
		return string(webhook.Admitting) + ": it answers"
	case !w.Failing() && !w.blind():
		return "callable; " + w.Lowest.String()
	}
	return w.Lowest.String()
}

// owner says whose a webhook is; a Helm release begins with its own name, which
// survives a cut.
func owner(w Webhook) string {
	if w.Owner.Release != "" {
		return w.Owner.Release + " (Helm)"
	}
	return cmp.Or(w.Owner.String(), "-")
}

// brief returns the first text, and how many more there are.
func brief(texts []string) string {
	switch len(texts) {
	case 0:
		return "-"
	case 1:
		return texts[0]
	}
	return fmt.Sprintf("%s +%d", texts[0], len(texts)-1)
}
