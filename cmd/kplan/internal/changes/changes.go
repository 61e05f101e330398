// Package changes shows what a plan would change, as text for people and as Markdown
// for a comment. It does not find that out: package steps does.
package changes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/steps/diff"
)

// Style says how changes are written.
type Style struct {
	// Colour allows colours. They only repeat what the signs say.
	Colour bool
	// Context is how many unchanged lines are shown around those that change.
	Context int
	// Brief leaves the objects' texts out.
	Brief bool
	// Clean takes out of a text what must not be shown; nil for nothing.
	Clean func(string) string
}

func (s Style) clean(text string) string {
	if s.Clean != nil {
		text = s.Clean(text)
	}
	return words.Clean(text)
}

// The colours are those of git diff.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
	dim    = "2"
)

func (s Style) paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Write writes what would change, and nothing when nothing would.
func (s Style) Write(w io.Writer, d *diff.Diff) error {
	var b strings.Builder
	for _, step := range d.Steps {
		if Shown(step) {
			s.step(&b, step)
		}
	}
	if b.Len() > 0 {
		b.WriteString(s.paint(bold, Summary(d)) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Shown reports whether there is something to say of a step.
func Shown(s diff.Step) bool { return s.State != diff.Unchanged && s.State != diff.Skipped }

// Summary counts what would change.
func Summary(d *diff.Diff) string {
	drifted, states := 0, map[diff.State]int{}
	for _, s := range d.Steps {
		states[s.State]++
		for _, o := range s.Objects {
			if o.Drift {
				drifted++
			}
		}
	}
	changed := fmt.Sprintf("%d to change", d.Count(diff.Change))
	if drifted > 0 {
		changed += fmt.Sprintf(" (%d by drift)", drifted)
	}
	parts := []string{
		fmt.Sprintf("%d to create", d.Count(diff.Create)), changed, fmt.Sprintf("%d to delete", d.Count(diff.Delete)),
	}
	var steps []string
	for _, state := range []struct {
		diff.State
		is string
	}{{diff.Changes, "to do"}, {diff.Unchanged, "unchanged"}, {diff.Unknown, "not known before the run"}, {diff.Fails, "would fail"}, {diff.Skipped, "skipped"}} {
		if n := states[state.State]; n > 0 {
			steps = append(steps, fmt.Sprintf("%d %s", n, state.is))
		}
	}
	return "objects: " + strings.Join(parts, ", ") + "; steps: " + strings.Join(steps, ", ")
}

func (s Style) step(b *strings.Builder, step diff.Step) {
	title := "step " + step.Name
	if step.Cluster != "" {
		title += " (cluster " + step.Cluster + ")"
	}
	fmt.Fprintf(b, "%s %s\n", s.paint(bold, s.clean(title)+":"), s.clean(headline(step)))
	if step.Release != nil {
		s.release(b, step.Release)
	}
	for _, o := range step.Objects {
		s.object(b, o)
	}
	b.WriteByte('\n')
}

// headline says what a step would do.
func headline(s diff.Step) string {
	switch s.State {
	case diff.Unknown:
		return "not known before the run: " + s.Message
	case diff.Fails:
		if len(s.Objects) > 0 {
			return strings.TrimPrefix(s.Message+"; it would fail", "; ")
		}
		return "it would fail: " + s.Message
	case diff.Unchanged, diff.Changes, diff.Skipped:
	}
	return cmp.Or(s.Message, string(s.Kind)+" "+words.Count(len(s.Objects), "object"))
}

func (s Style) release(b *strings.Builder, r *diff.Release) {
	for _, f := range r.Values {
		fmt.Fprintf(b, "  value %s: %s\n", s.clean(f.Path), s.paint(yellow, s.clean(arrow(f))))
	}
	for _, h := range r.Hooks {
		fmt.Fprintf(b, "  hook %s runs\n", s.clean(h))
	}
	if len(r.Chance) > 0 {
		fmt.Fprintf(b, "  %s\n", s.paint(dim, s.clean("parts are made anew by each rendering: "+words.List(r.Chance, 3))))
	}
}

func (s Style) object(b *strings.Builder, o diff.Object) {
	sign, code := "~", yellow
	switch o.Action {
	case diff.Create:
		sign, code = "+", green
	case diff.Delete:
		sign, code = "-", red
	case diff.Change:
	}
	title := sign + " " + o.Object
	if o.Drift {
		title += " has drifted"
	}
	b.WriteString(s.paint(code+";"+bold, s.clean(title)) + "\n")
	if o.Error != "" {
		fmt.Fprintf(b, "  %s\n", s.paint(red, s.clean("refused: "+words.Line(o.Error))))
	}
	if o.ClientSide != "" {
		fmt.Fprintf(b, "  %s\n", s.paint(dim, s.clean("by its manifest alone, since "+words.Line(o.ClientSide))))
	}
	for _, f := range o.Fields {
		if o.Drift || f.Manager != "" || s.Brief && o.Action == diff.Change {
			fmt.Fprintf(b, "  %s\n", s.clean(Field(f)))
		}
	}
	if s.Brief {
		return
	}
	for _, line := range Lines(o.Before, o.After, s.Context) {
		switch {
		case strings.HasPrefix(line, "@@"):
			line = s.paint(cyan, line)
		case strings.HasPrefix(line, "+"):
			line = s.paint(green, s.clean(line))
		case strings.HasPrefix(line, "-"):
			line = s.paint(red, s.clean(line))
		default:
			line = s.clean(line)
		}
		b.WriteString(line + "\n")
	}
}

// Field says in a line what would become of a field.
func Field(f diff.Field) string {
	text := f.Path + ": " + arrow(f)
	if f.Manager != "" {
		text += ", set by " + f.Manager
	}
	return text
}

func arrow(f diff.Field) string { return short(f.Before) + " → " + short(f.After) }

// short is a value on one line, cut where it is long.
func short(v any) string {
	const most = 80
	if v == nil {
		return "(none)"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "…"
	}
	return words.Cut(string(b), most, "…")
}
