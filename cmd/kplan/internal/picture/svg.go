package picture

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// Theme is the colours of a picture, each as #rrggbb.
type Theme struct {
	Ground, Border, Text, Dim              string
	Red, Green, Yellow, Blue, Violet, Cyan string
}

// Light and Dark are the themes; each colour of text can be read on the ground.
var (
	Light = Theme{
		Ground: "#fbfbfa", Border: "#d5d8dc", Text: "#1f2328", Dim: "#59636e",
		Red: "#b3261e", Green: "#17692d", Yellow: "#8a5300", Blue: "#0b57a4", Violet: "#7339c9", Cyan: "#0a6371",
	}
	Dark = Theme{
		Ground: "#14171c", Border: "#333a44", Text: "#e3e6ea", Dim: "#9aa4b0",
		Red: "#ff8a80", Green: "#5cc774", Yellow: "#e0ad42", Blue: "#7cb7ff", Violet: "#c9a6ff", Cyan: "#63cfda",
	}
)

// About is what is said of a picture to those who do not see it.
type About struct{ Title, Text string }

// A cell, and what is left free around all of them, in units of the picture.
const (
	cellWidth, cellHeight, margin = 8.4, 18, 14
	fontSize                      = 14
)

// SVG writes f as one picture. Lines are kept once however many frames show them.
func (f *Film) SVG(w io.Writer, t Theme, about About) error {
	width, height := float64(f.Columns)*cellWidth, f.Rows*cellHeight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %d" width="%[1]s" height="%[2]d" role="img" aria-labelledby="t d">`+"\n",
		number(width+2*margin), height+2*margin)
	fmt.Fprintf(&b, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n", html.EscapeString(about.Title), html.EscapeString(about.Text))
	f.style(&b, t)
	lines := f.lines(&b)
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%s" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n",
		number(width+2*margin-1), height+2*margin-1, t.Ground, t.Border)
	fmt.Fprintf(&b, `<svg x="%d" y="%[1]d" width="%s" height="%d" overflow="hidden"><g class="film">`+"\n", margin, number(width), height)
	for i, frame := range f.Frames {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`, i*height)
		for row, line := range frame.Lines {
			if n, ok := lines[line]; ok {
				fmt.Fprintf(&b, `<use href="#l%d" y="%d"/>`, n, row*cellHeight)
			}
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</g></svg>\n</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// style writes the colours, and how the frames pass: they hang below each other, and
// move up by one at a time.
func (f *Film) style(b *bytes.Buffer, t Theme) {
	height := f.Rows * cellHeight
	fmt.Fprintf(b, "<style>text{font:%dpx ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre;fill:%s}", fontSize, t.Text)
	for _, c := range []struct{ class, fill string }{
		{"d", t.Dim},
		{"c31", t.Red},
		{"c32", t.Green},
		{"c33", t.Yellow},
		{"c34", t.Blue},
		{"c35", t.Violet},
		{"c36", t.Cyan},
	} {
		fmt.Fprintf(b, ".%s{fill:%s}", c.class, c.fill)
	}
	whole := f.length()
	fmt.Fprintf(b, ".b{font-weight:700}\n.film{animation:film %ss step-end infinite;transform:translateY(-%dpx)}\n@keyframes film{",
		number(whole.Seconds()), f.Still*height)
	var at time.Duration
	for i, frame := range f.Frames {
		fmt.Fprintf(b, "%s%%{transform:translateY(-%dpx)}", number(100*at.Seconds()/whole.Seconds()), i*height)
		at += frame.For
	}
	b.WriteString("}\n@media (prefers-reduced-motion:reduce){.film{animation:none}}</style>\n")
}

// lines writes each line that any frame shows, and returns their numbers.
func (f *Film) lines(b *bytes.Buffer) map[string]int {
	numbers := map[string]int{}
	b.WriteString("<defs>\n")
	for _, frame := range f.Frames {
		for _, line := range frame.Lines {
			if _, ok := numbers[line]; ok || words.Clean(line) == "" {
				continue
			}
			numbers[line] = len(numbers)
			fmt.Fprintf(b, `<g id="l%d">`, numbers[line])
			for _, s := range spans(line) {
				s.write(b)
			}
			b.WriteString("</g>\n")
		}
	}
	b.WriteString("</defs>\n")
	return numbers
}

// span is text of one style, from a column on.
type span struct {
	column      int
	text, class string
}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// spans splits a line where its style changes.
func spans(line string) []span {
	var all []span
	column, class := 0, ""
	put := func(text string) {
		trimmed := strings.TrimLeft(text, " ")
		if body := strings.TrimRight(trimmed, " "); body != "" {
			all = append(all, span{column + len(text) - len(trimmed), body, class})
		}
		column += words.Width(text)
	}
	for line != "" {
		m := escape.FindStringSubmatchIndex(line)
		if m == nil {
			put(line)
			break
		}
		put(line[:m[0]])
		class, line = classes(line[m[2]:m[3]]), line[m[1]:]
	}
	return all
}

// classes are those of the attributes of an escape sequence.
func classes(attributes string) string {
	var names []string
	for a := range strings.SplitSeq(attributes, ";") {
		switch a {
		case "1":
			names = append(names, "b")
		case "2":
			names = append(names, "d")
		case "31", "32", "33", "34", "35", "36":
			names = append(names, "c"+a)
		}
	}
	return strings.Join(names, " ")
}

// write writes s. The length is said so that it keeps to its cells whatever font there is.
func (s span) write(b *bytes.Buffer) {
	class := ""
	if s.class != "" {
		class = fmt.Sprintf(` class="%s"`, s.class)
	}
	fmt.Fprintf(b, `<text x="%s" y="%d" textLength="%s" lengthAdjust="spacingAndGlyphs"%s>%s</text>`,
		number(float64(s.column)*cellWidth), fontSize, number(float64(words.Width(s.text))*cellWidth), class, html.EscapeString(s.text))
}

// number writes a number in as few digits as pictures need.
func number(x float64) string {
	return cmp.Or(strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), "."), "0")
}
