// Package redact keeps secrets out of text: a Set knows the secrets, and puts
// "(sensitive)" in their place wherever they stand in a text, also inside of
// longer words, escaped and encoded.
//
// It does not know where secrets come from, and cannot see one that was
// compressed, hashed, encrypted or taken apart.
package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// Mark stands where a secret was.
const Mark = "(sensitive)"

// Shortest is how many characters a text must have to be looked for. Shorter ones
// are in every other line by chance, so that looking for them would hide what
// matters and, by what is hidden, tell what they are. Whoever shows the value of
// a variable at its own place writes Mark there, however short it is.
const Shortest = 4

// Set is a set of secrets. The zero value is ready and has none, as has nil. It
// is safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	texts map[string]struct{}
	// index is made of texts when it is first needed, and nil when they changed.
	index atomic.Pointer[index]
}

// Add takes the texts and numbers of value, in lists and mappings too, for
// secrets. Names of fields are none, nor are true and false.
//
// Of a text with several lines each line of 8 characters or more is a secret as
// well, for it may be shown indented; but not a PEM file's first and last one, nor
// what is in every YAML file, such as kind: Config and a key without a value.
func (s *Set) Add(value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]struct{}{}
	}
	before := len(s.texts)
	s.add(value)
	if len(s.texts) > before {
		s.index.Store(nil)
	}
}

func (s *Set) add(value any) {
	switch v := value.(type) {
	case string:
		s.addText(v)
	case []byte:
		s.addText(string(v))
	case []any:
		for _, x := range v {
			s.add(x)
		}
	case map[string]any:
		for _, x := range v {
			s.add(x)
		}
	case int:
		s.addText(strconv.Itoa(v))
	case int64:
		s.addText(strconv.FormatInt(v, 10))
	case uint64:
		s.addText(strconv.FormatUint(v, 10))
	case float64:
		s.addText(strconv.FormatFloat(v, 'g', -1, 64))
		s.addText(strconv.FormatFloat(v, 'f', -1, 64))
	case json.Number:
		s.addText(v.String())
	}
}

func (s *Set) addText(text string) {
	text = strings.TrimSpace(text) // whoever shows it may leave the blanks out
	s.addLine(text)
	several := strings.ContainsAny(text, "\r\n")
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if line = strings.TrimSpace(line); several && (utf8.RuneCountInString(line) < shortestLine || commonLine.MatchString(line)) {
			continue
		}
		for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(breaks, r) }) {
			s.addLine(strings.TrimSpace(part))
		}
	}
}

// shortestLine is how many characters one of several lines must have.
const shortestLine = 8

// commonLine are lines that tell nothing, and are in other files too.
var commonLine = regexp.MustCompile(`^-----(BEGIN|END) |^(- )?["']?(apiVersion|kind)["']?:|^(- )*["']?[-\w./]+["']?:( *(\{\}|\[\]|[|>][-+]?))?$`)

// breaks are what else ends a line in YAML 1.1, whose writers may indent the next one.
const breaks = "\u0085\u2028\u2029"

// commonStart is how many bytes of a text are lines that tell nothing.
func commonStart(text string) (n int) {
	for line := range strings.Lines(text) {
		if !commonLine.MatchString(strings.TrimSpace(line)) {
			break
		}
		n += len(line)
	}
	return n
}

func (s *Set) addLine(text string) {
	if utf8.RuneCountInString(text) >= Shortest {
		s.texts[text] = struct{}{}
	}
}

// Text returns text with Mark in the place of every secret. Where secrets overlap
// or touch there is one Mark for all.
//
// The start of a secret is hidden too where the text can have been cut, if it has 8
// characters or more besides lines that are in every file: at its end, at that of a
// line or of a quoted text, and before an ellipsis.
//
// Base64 may be broken into lines. Where these come one at a time, each is hidden but
// for up to 7 letters with the secret's start or end.
func (s *Set) Text(text string) string {
	if s == nil {
		return text
	}
	return s.ready().replace(text)
}

// ready returns the index of all secrets that were added so far.
func (s *Set) ready() *index {
	if x := s.index.Load(); x != nil {
		return x
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.index.Load()
	if x == nil {
		x = newIndex(s.texts)
		s.index.Store(x)
	}
	return x
}

// JSON returns a JSON text whose strings were redacted one by one, so that it stays
// JSON. A number that has a secret becomes the string Mark. Names of fields are
// redacted too, unless they are plain words: these are the form's own, by which
// programs find what they look for. What is not JSON is redacted as text.
func (s *Set) JSON(doc []byte) []byte {
	if s == nil || !json.Valid(doc) {
		return []byte(s.Text(string(doc)))
	}
	x := s.ready()
	if len(x.needles) == 0 {
		return doc
	}
	return token.ReplaceAllFunc(doc, x.token)
}

// token is a number of JSON, or a text, with the colon after it where it is the name
// of a field.
var token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(?:[ \t\r\n]*:)?|-?[0-9][-+.eE0-9]*`)

var plainField = regexp.MustCompile(`^"[A-Za-z_]+"[ \t\r\n]*:$`)

// token redacts one token of JSON.
func (x *index) token(token []byte) []byte {
	if token[0] != '"' {
		if x.replace(string(token)) != string(token) {
			return quoteJSON(Mark, false)
		}
		return token
	}
	end := bytes.LastIndexByte(token, '"') + 1
	var text string
	if plainField.Match(token) || json.Unmarshal(token[:end], &text) != nil { // it is valid
		return token
	}
	if clean := x.replace(text); clean != text {
		return append(quoteJSON(clean, false), token[end:]...)
	}
	return token
}
