package expr

import "strings"

// Segment is a piece of a text: a literal, or an expression.
type Segment struct {
	// Text is the literal, with ${{ for each $${{; of an expression it is the
	// expression without the ${{ and }}, and without blanks around it.
	Text string
	// IsExpr says that it is an expression.
	IsExpr bool
	// Offset is where it starts in the text, in bytes; of an expression its first
	// character that is not blank.
	Offset int
}

const (
	open    = "${{"
	closing = "}}"
)

// Has reports whether a text has an expression, or a $${{ that Split would turn
// into ${{.
func Has(text string) bool { return strings.Contains(text, open) }

// Split cuts a text into its literals and expressions. An expression ends with
// the first }} that is in none of its texts and closes none of its maps. The
// error is an *Error.
func Split(text string) ([]Segment, error) {
	var segments []Segment
	var literal strings.Builder
	start := 0 // of the literal
	flush := func() {
		if literal.Len() > 0 {
			segments = append(segments, Segment{Text: literal.String(), Offset: start})
			literal.Reset()
		}
	}
	for at := 0; ; {
		i := strings.Index(text[at:], open)
		if i < 0 {
			literal.WriteString(text[at:])
			flush()
			return segments, nil
		}
		i += at
		if i > at && text[i-1] == '$' {
			literal.WriteString(text[at:i-1] + open)
			at = i + len(open)
			continue
		}
		literal.WriteString(text[at:i])
		flush()
		body := i + len(open)
		end, err := findEnd(text, body)
		if err != nil {
			err.Offset = i
			return nil, err
		}
		inner := text[body:end]
		trimmed := strings.TrimLeft(inner, blanks)
		segments = append(segments, Segment{Text: strings.TrimRight(trimmed, blanks), IsExpr: true, Offset: body + len(inner) - len(trimmed)})
		at = end + len(closing)
		start = at
	}
}

const blanks = " \t\r\n"

// findEnd returns where the }} of an expression stands that starts at from.
func findEnd(text string, from int) (int, *Error) {
	depth := 0
	for at := from; at < len(text); {
		switch c := text[at]; {
		case c == '}' && depth == 0 && strings.HasPrefix(text[at:], closing):
			return at, nil
		case c == '}' && depth > 0:
			depth--
			at++
		case c == '{':
			depth++
			at++
		default:
			next, ok := skip(text, at)
			if !ok {
				return 0, &Error{Message: "the expression is not closed: a quote in it is open"}
			}
			at = next
		}
	}
	if depth > 0 {
		return 0, &Error{Message: "the expression is not closed: a { in it is open"}
	}
	return 0, &Error{Message: "the expression is not closed: }} is missing"}
}

// skip returns the offset after the text, comment or character that starts at an
// offset. It is not ok for a text without end.
func skip(text string, at int) (next int, ok bool) {
	switch c := text[at]; {
	case c == '"' || c == '\'':
		return skipString(text, at, isRaw(text, at))
	case strings.HasPrefix(text[at:], "//"):
		for at < len(text) && text[at] != '\n' && !strings.HasPrefix(text[at:], closing) {
			at++
		}
		return at, true
	}
	return at + 1, true
}

// isRaw reports whether the quote at an offset opens a text in which \ means
// itself, such as r"\d" or rb'\x'.
func isRaw(text string, at int) bool {
	word := at
	for word > 0 && isWord(text[word-1]) {
		word--
	}
	switch strings.ToLower(text[word:at]) {
	case "r", "rb", "br":
		return true
	}
	return false
}

func skipString(text string, at int, raw bool) (next int, ok bool) {
	quote := text[at : at+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[at:], triple) {
		quote = triple
	}
	for at += len(quote); at < len(text); at++ {
		switch {
		case strings.HasPrefix(text[at:], quote):
			return at + len(quote), true
		case text[at] == '\\' && !raw:
			at++
		case text[at] == '\n' && len(quote) == 1:
			return 0, false
		}
	}
	return 0, false
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
