package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/kplan-dev/kplan/internal/clean"
)

// Clean is clean.Text. Every text that comes from a cluster, a chart or a registry
// goes through it.
func Clean(s string) string { return clean.Text(s) }

// Problem writes an error and what to do about it, as every command does.
func Problem(w io.Writer, o Options, text, hint string) {
	fmt.Fprintf(w, "%s %s\n", o.paint("31;1", "error:"), indent(o.Clean(text), "  "))
	if hint != "" {
		fmt.Fprintf(w, "%s %s\n", o.paint("36", "hint:"), indent(o.Clean(hint), "  "))
	}
}

// paint puts s into the colour of an SGR code.
func (o Options) paint(code, s string) string {
	if !o.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// indent puts prefix before every line of s but the first.
func indent(s, prefix string) string {
	return strings.ReplaceAll(strings.TrimRightFunc(s, unicode.IsSpace), "\n", "\n"+prefix)
}

// Brief writes a duration for people: 40ms, 6.2s, 42s, 3m05s, 1h02m.
func Brief(d time.Duration) string {
	d = max(d, 0)
	switch s := int(d.Round(time.Second).Seconds()); {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
}

// Count writes a number with its noun: 1 step, 2 steps.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Joined joins the parts that are not empty.
func Joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
