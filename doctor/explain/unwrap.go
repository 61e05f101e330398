package explain

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// maxDepth bounds how often a text may be quoted within another one: an API server's
// status in a client's error in a log.
const maxDepth = 4

// quotedValue is a value in quotes behind its name, as in logfmt and Go's text logs.
var quotedValue = regexp.MustCompile(`\b(?:err|error|msg|message|reason)="((?:[^"\\]|\\.)*)"`)

// member is a line of JSON that is laid out on many.
var member = regexp.MustCompile(`^\s*"\w+":\s*("(?:[^"\\]|\\.)*"),?$`)

// unwrap gives the texts that a line of a log quotes, each line apart; a line that quotes
// none is itself.
func unwrap(line string, depth int) []string {
	if depth >= maxDepth || !interesting(line) {
		return []string{line}
	}
	var values []string
	if at := strings.Index(line, `{"`); at >= 0 {
		before := line[:at]
		if values = stringsOf(line[at:]); values != nil && interesting(before) {
			values = append([]string{before}, values...)
		}
	}
	if m := member.FindStringSubmatch(line); m != nil {
		values = append(values, unquote(m[1]))
	}
	if values == nil {
		for _, m := range quotedValue.FindAllStringSubmatch(line, -1) {
			if v := unquote(`"` + m[1] + `"`); interesting(v) {
				values = append(values, v)
			}
		}
	}
	if values == nil && strings.Contains(line, `\"`) { // a part of something that was quoted
		values = strings.Split(unescape.Replace(line), `","`)
	}
	if values == nil {
		return []string{line}
	}
	var lines []string
	for _, v := range values {
		for l := range strings.SplitSeq(v, "\n") {
			lines = append(lines, unwrap(l, depth+1)...)
		}
	}
	return lines
}

var unescape = strings.NewReplacer(`\\\"`, `"`, `\"`, `"`, `\\n`, "\n", `\n`, "\n", `\t`, " ")

func unquote(quoted string) string {
	if v, err := strconv.Unquote(quoted); err == nil {
		return v
	}
	return unescape.Replace(strings.Trim(quoted, `"`))
}

// stringsOf are the texts in a JSON object, in order; nil when it is none. What follows
// the object is left out.
func stringsOf(text string) []string {
	var values []string
	d := json.NewDecoder(strings.NewReader(text))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		switch t := token.(type) {
		case json.Delim:
			if depth++; t == '}' || t == ']' {
				depth -= 2
			}
		case string:
			if interesting(t) {
				values = append(values, t)
			}
		}
		if depth == 0 {
			return values
		}
	}
}
