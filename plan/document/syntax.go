package document

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	yamlErrorLine = regexp.MustCompile(`^line (\d+): `)
	quoted        = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxHints say what a message of the YAML parser mostly means.
var syntaxHints = []struct{ message, hint string }{
	{"mapping values are not allowed", `quote a text that has ": " in it, or check the indentation`},
	{"did not find expected key", "check the indentation of this line and of those above"},
	{"did not find expected '-' indicator", "check the indentation of this line and of those above"},
	{"did not find expected ',' or", "a [ or { above is not closed"},
	{"could not find expected ':'", "write name: value"},
	{"found unexpected end of stream", "a quote that opens here is not closed"},
	{"found character that cannot start any token", "quote a text that starts with @, ` or %"},
	{"block sequence entries are not allowed", "start the list on a line of its own"},
}

// ReportSyntax reports what a YAML parser says, whose positions are lines at best.
func (f *Faults) ReportSyntax(s *Source, err error) {
	line, text := syntaxLine(s.src, err)
	pos, hint := Pos{File: s.file}, ""
	if line > 0 {
		line = min(line, len(s.starts))
		for line > 1 && len(bytes.TrimSpace(s.line(line))) == 0 {
			line-- // the end of the file is of no help
		}
		pos = Pos{s.file, line, firstColumn(string(s.line(line)))}
	}
	for _, h := range syntaxHints {
		if strings.HasPrefix(text, h.message) {
			hint = h.hint
		}
	}
	if line > 0 && strings.HasPrefix(text, "did not find expected ',' or") && bytes.Contains(quoted.ReplaceAll(s.line(pos.Line), nil), []byte("${{")) {
		hint = "quote an expression that stands between { and } or [ and ]: \"${{ … }}\""
	}
	if m := unknownAnchor.FindStringSubmatch(text); m != nil {
		if i := bytes.Index(s.src, []byte("*"+m[1])); i >= 0 {
			pos = s.posAt(i)
		}
		text, hint = "there is no anchor &"+m[1]+" before its alias", "quote a text that starts with *"
		if !s.open() {
			text = "an alias has no anchor before it"
		}
	}
	// A tab in an indentation gives all kinds of messages, few of which say so.
	for line := max(pos.Line-1, 1); pos.Line > 0 && line <= min(pos.Line+1, len(s.starts)); line++ {
		if indent, tab := leadingTab(string(s.line(line))); tab {
			pos = Pos{s.file, line, indent + 1}
			text, hint = "a tab cannot indent YAML", "indent by spaces"
			break
		}
	}
	f.Add(s, pos, Fault{Code: CodeSyntax, Hint: hint}, "%s", text)
}

// syntaxLine returns the line that a parser's error is about; 0 when it does not
// say. The two parsers name different lines: yaml.v3 where the surrounding thing
// starts, yaml.v2 where it went wrong, which is mostly the better one. Errors of
// the grammar, unlike those of the scanner, count lines from 0 in both.
func syntaxLine(src []byte, err error) (line int, text string) {
	line, text = splitLine(err)
	if strings.HasPrefix(text, "could not find expected") || strings.HasPrefix(text, "found unexpected end of stream") {
		return line, text
	}
	if _, err2 := yaml.YAMLToJSON(src); err2 != nil {
		if line2, text2 := splitLine(err2); text2 == text {
			line = line2
		}
	}
	if strings.HasPrefix(text, "did not find expected") {
		line++
	}
	return line, text
}

func splitLine(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	if m := yamlErrorLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	return line, text
}

// firstColumn returns the column of the first character which is not blank.
func firstColumn(line string) int {
	return len(line) - len(strings.TrimLeft(line, " ")) + 1
}

// leadingTab finds a tab in the indentation of a line that has more than blanks.
func leadingTab(line string) (at int, ok bool) {
	rest := strings.TrimLeft(line, " \t")
	indent := line[:len(line)-len(rest)]
	at = strings.IndexByte(indent, '\t')
	return at, at >= 0 && strings.TrimSpace(rest) != ""
}
