package findings

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Diagnosis is what was found in clusters.
type Diagnosis struct {
	// Clusters name those that were looked at.
	Clusters []string `json:"clusters"`
	// Findings are the worst first.
	Findings []finding.Finding `json:"findings"`
	// Unread says what could not be read.
	Unread []string `json:"unread,omitempty"`
	// Blind reports that webhook configurations could not be read.
	Blind bool `json:"blind,omitempty"`

	// Rules are all that was looked for.
	Rules []finding.Rule `json:"-"`
	// Version is that of kplan.
	Version string `json:"-"`
}

// Markdown is the format for comments and issues.
const Markdown data.Format = "markdown"

// Style says how a diagnosis is written for people.
type Style struct {
	Colour bool
}

// Write writes it for people, as Markdown or as SARIF.
func (d Diagnosis) Write(w io.Writer, f data.Format, s Style) error {
	var err error
	switch f {
	case SARIF:
		err = data.Write(w, data.JSON, Report{Findings: d.Findings, Rules: d.Rules, Version: d.Version}.log(), nil)
	case Markdown:
		_, err = io.WriteString(w, words.Clean(d.markdown()))
	default:
		_, err = io.WriteString(w, d.text(s))
	}
	if err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	return nil
}

// ansi are the colours of severities.
var ansi = map[finding.Severity]string{finding.Error: "31", finding.Warning: "33", finding.Note: "36"}

func (d Diagnosis) text(s Style) string {
	var b strings.Builder
	for _, f := range d.Findings {
		severity := string(f.Severity)
		if s.Colour {
			severity = "\x1b[1;" + ansi[f.Severity] + "m" + severity + "\x1b[0m"
		}
		b.WriteString(severity + words.Clean(fmt.Sprintf(": %s [%s]%s\n", f.Object, f.Rule, where(f))))
		line := func(label, text string) {
			if text != "" {
				b.WriteString(words.Clean("  " + label + strings.TrimLeft(words.Fill(words.Line(text), 110, "    "), " ") + "\n"))
			}
		}
		line("", f.Message)
		for _, e := range f.Evidence {
			line("read: ", fmt.Sprintf("%s %s: %s", e.Object, e.Field, e.Value))
		}
		line("hint: ", f.Hint)
	}
	b.WriteString(words.Clean(d.summary()))
	return b.String()
}

func where(f finding.Finding) string {
	if f.Cluster == "" {
		return ""
	}
	return " on cluster " + f.Cluster
}

// summary counts, and names what was not looked at.
func (d Diagnosis) summary() string {
	var b strings.Builder
	count := map[finding.Severity]int{}
	for _, f := range d.Findings {
		count[f.Severity]++
	}
	if len(d.Findings) == 0 {
		b.WriteString("nothing found")
		if len(d.Unread) > 0 {
			b.WriteString(" in what could be read")
		}
	} else {
		b.WriteString(words.Count(count[finding.Error], "error") + ", " + words.Count(count[finding.Warning], "warning"))
		if n := count[finding.Note]; n > 0 {
			b.WriteString(", " + words.Count(n, "note"))
		}
	}
	fmt.Fprintf(&b, " by %s on %s\n", words.Count(len(d.Rules), "check"), strings.Join(d.Clusters, " and "))
	for _, text := range d.Unread {
		b.WriteString("not read: " + words.Line(text) + "\n")
	}
	return b.String()
}

func (d Diagnosis) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## kplan doctor\n\n%s", strings.ReplaceAll(d.summary(), "\n", "  \n"))
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "\n### %s: `%s`\n\n%s (`%s`%s)\n\n", f.Severity, code(f.Object), prose(f.Message), f.Rule, where(f))
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "- `%s` `%s`: %s\n", code(e.Object), code(e.Field), prose(e.Value))
		}
		if f.Hint != "" {
			fmt.Fprintf(&b, "\n**To do:** %s\n", prose(f.Hint))
		}
		if i := slices.IndexFunc(d.Rules, func(r finding.Rule) bool { return r.ID == f.Rule }); i >= 0 && d.Rules[i].Explanation != "" {
			fmt.Fprintf(&b, "\n%s\n", prose(d.Rules[i].Explanation))
		}
	}
	return b.String()
}

// code is a text within backquotes, and prose one that Markdown takes for no markup.
func code(text string) string { return strings.ReplaceAll(words.Line(text), "`", "'") }

func prose(text string) string {
	return strings.NewReplacer("<", "&lt;", "|", `\|`, "*", `\*`, "_", `\_`, "[", `\[`, "`", "'").Replace(words.Line(text))
}
