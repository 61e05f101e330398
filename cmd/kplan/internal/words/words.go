// Package words writes texts for people: durations, plurals and lists, and text cut
// or wrapped to the width of a terminal.
//
// It colours nothing, and knows neither what a text is about nor where it goes.
package words

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/internal/clean"
)

// Clean is clean.Text. Every text that comes from a cluster, a chart or a registry
// goes through it, or through Line.
func Clean(s string) string { return clean.Text(s) }

// Line returns s cleaned and on one line, with one space between two words.
func Line(s string) string { return strings.Join(strings.Fields(clean.Text(s)), " ") }

// Brief returns a duration as people write it: 40ms, 6.2s, 42s, 3m05s, 1h02m.
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

// Exact returns a whole duration without the zeros at its end: 0s, 90ms, 1m, 1h30m.
func Exact(d time.Duration) string {
	s := d.String() // 1h30m0s
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Value returns a value that came as JSON: a text as it is.
func Value(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Count returns a number with its noun: 1 step, 2 steps.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Join joins the parts that are not empty.
func Join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}

// Prefixed returns s after prefix, and nothing if s is empty: with Join it writes what
// is known of things that may be missing.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// List joins names with commas: at most most of them, and how many more there are.
func List(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Names returns the values of an enumeration as texts.
func Names[T ~string](values []T) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return names
}
