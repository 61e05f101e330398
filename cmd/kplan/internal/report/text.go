package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// textLimit bounds a text of one place of a report, such as a cause. Longer
// ones hide more than they tell.
const textLimit = 16 << 10

// clean makes a text harmless that came from a cluster or a chart, and bounds it.
func clean(s string) string { return cut(words.Clean(s), textLimit) }

// line is clean without the ends of lines.
func line(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// cut keeps the first limit bytes of s, and says how many are left out.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return fmt.Sprintf("%s … (%d bytes left out)", s[:limit], len(s)-limit)
}

// tail keeps the last limit bytes of s, from the start of a line on if there is one.
func tail(s string, limit int) (rest string, dropped int) {
	if len(s) <= limit {
		return s, 0
	}
	at := len(s) - limit
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && at+i+1 < len(s) {
		at += i + 1
	}
	return s[at:], at
}

// shorten keeps the first and the last letters of a name that has no room.
func shorten(s string, letters int) string {
	r := []rune(s)
	if len(r) <= letters {
		return s
	}
	back := (letters - 1) / 2
	return string(r[:letters-1-back]) + "…" + string(r[len(r)-back:])
}
