package changes

import (
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/steps/diff"
)

// room is how long Markdown may be: a comment on GitHub has 65,536 characters.
const room = 60_000

// Markdown writes what would change as a comment for a merge request: a line for each
// step, whose objects can be unfolded.
func (s Style) Markdown(w io.Writer, d *diff.Diff) error {
	s.Colour = false
	var b strings.Builder
	fmt.Fprintf(&b, "### kplan diff: %s\n\n", escape(s.clean(d.Plan)))
	if !d.Changes {
		b.WriteString("No changes.\n")
	} else {
		fmt.Fprintf(&b, "**%s**\n", escape(Summary(d)))
	}
	left := 0
	for _, step := range d.Steps {
		if !Shown(step) {
			continue
		}
		text := s.section(step)
		if b.Len()+len(text) > room {
			left++
			continue
		}
		b.WriteString(text)
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%d more steps have no room here.\n", left)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// section is what is said of a step; only its first line if it is too long.
func (s Style) section(step diff.Step) string {
	title := fmt.Sprintf("<b>%s</b>: %s", escape(s.clean(step.Name)), escape(s.clean(headline(step))))
	var b strings.Builder
	if step.Release != nil {
		s.release(&b, step.Release)
	}
	for _, o := range step.Objects {
		s.object(&b, o)
	}
	text := b.String()
	if text == "" {
		return "\n- " + title + "\n"
	}
	if len(text) > room/2 {
		text = strings.ToValidUTF8(text[:room/2], "") + "\n… cut\n"
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("\n<details><summary>%s</summary>\n\n%sdiff\n%s%s\n\n</details>\n", title, fence, text, fence)
}

// escape keeps Markdown and HTML from reading a text.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "|", "\\|").Replace(text)
}
