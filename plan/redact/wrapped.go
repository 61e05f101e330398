package redact

import (
	"index/suffixarray"
	"slices"
	"strings"
)

// Programs such as base64 break what they write into lines, wherever the secret is
// in it. Lines that stand in one text are looked at as if they were one. A log comes
// line by line: there a word is hidden that is from the inside of a secret's base64,
// or begins with its end.

// inner finds texts inside of the base64 of secrets.
type inner struct {
	forms *suffixarray.Index // each followed by formEnd
	grams filter             // of all grams in forms
}

// formEnd is no letter of base64.
const formEnd = "."

func newInner(secrets map[string]struct{}) *inner {
	x := &inner{}
	var all []byte
	for secret := range secrets {
		var before string
		for _, n := range encoded(secret) {
			if n.text == before || len(n.text) < leastStart { // most are the same in both alphabets
				continue
			}
			before = n.text
			all = append(append(all, n.text...), formEnd...)
			for i := range len(n.text) - gram + 1 {
				x.grams.add(gramOf(n.text[i : i+gram]))
			}
		}
	}
	x.forms = suffixarray.New(all)
	return x
}

func (x *inner) has(text string) bool { return len(x.forms.Lookup([]byte(text), 1)) > 0 }

// start is how many bytes of a word are from a secret's base64, where the word does
// not start with the start of that: all of them, or those up to its end.
func (x *inner) start(word string) int {
	if len(word) < leastStart || !x.grams.has(gramOf(word)) || !x.grams.has(gramOf(word[gram:])) || !x.has(word[:leastStart]) {
		return 0
	}
	if x.has(word) {
		return len(word)
	}
	for n := min(len(word), longest); n >= leastStart; n-- {
		if x.has(word[:n] + formEnd) {
			return min(n+1, len(word)) // the next letter can have bits of the secret too
		}
	}
	return 0
}

// wrapped finds what is to be replaced in base64 that was broken into lines.
func (x *index) wrapped(text string) []span {
	var found []span
	joined := 0 // up to where lines were looked at as one
	for i := 0; i < len(text); {
		n := wordLen(text[i:])
		if n < leastStart {
			i += max(n, 1)
			continue
		}
		from, end := i, i+n
		if i > 0 && text[i-1] == '\\' && strings.IndexByte("nrt", text[i]) >= 0 {
			from++ // the word follows an escape
		}
		if hit := x.inner.start(text[from:end]); hit > 0 {
			found = append(found, span{from, from + hit + paddingLen(text[from+hit:])})
		}
		if i >= joined && goesOn(text[end:]) {
			lines := join(text, i)
			joined = lines.at[len(lines.at)-1] + 1
			for _, s := range x.spans(lines.text) {
				found = append(found, span{lines.at[s.from], lines.at[s.to-1] + 1})
			}
		}
		i = end
	}
	return found
}

// joint is a text that was broken into lines, without the breaks.
type joint struct {
	text string
	at   []int // where each byte of text was
}

// join puts lines of base64 together, of which the first starts at i.
func join(text string, i int) joint {
	var (
		b  []byte
		at []int
	)
	take := func(n int) {
		for range n {
			b, at, i = append(b, text[i]), append(at, i), i+1
		}
	}
	for {
		n := wordLen(text[i:])
		take(n)
		if n < leastStart || !goesOn(text[i:]) {
			take(paddingLen(text[i:]))
			return joint{string(b), at}
		}
		gap, _ := lineBreak(text[i:])
		i += gap
	}
}

// goesOn reports whether a line of base64 can go on in the next one.
func goesOn(rest string) bool {
	gap, broken := lineBreak(rest)
	return broken && gap < len(rest) && isBase64(rest[gap])
}

// lineBreak is how many bytes of blanks and line breaks text starts with, as they
// are or escaped, and whether there is a line break among them.
func lineBreak(text string) (n int, broken bool) {
	for n < len(text) {
		switch text[n] {
		case ' ', '\t', '\r':
		case '\n':
			broken = true
		case '\\':
			escape := strings.TrimLeft(text[n:], `\`)
			if escape == "" || strings.IndexByte("nrt", escape[0]) < 0 {
				return n, broken
			}
			broken = broken || escape[0] == 'n'
			n = len(text) - len(escape)
		default:
			return n, broken
		}
		n++
	}
	return n, broken
}

// wordLen is how many letters of base64 text starts with.
func wordLen(text string) int {
	for i := range len(text) {
		if !isBase64(text[i]) {
			return i
		}
	}
	return len(text)
}

func paddingLen(text string) int { return len(text) - len(strings.TrimLeft(text, "=")) }

// span is a part of a text.
type span struct{ from, to int }

// merged puts spans in order, and makes one of those that overlap or touch.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	n := 0
	for _, s := range spans {
		if n > 0 && s.from <= spans[n-1].to {
			spans[n-1].to = max(spans[n-1].to, s.to)
			continue
		}
		spans[n] = s
		n++
	}
	return spans[:n]
}
