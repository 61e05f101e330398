package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// needle is a text to look for: one form of a secret, or a piece of a long one.
type needle struct {
	text string
	// before and after count the letters of base64 next to the needle that have bits
	// of the secret as well, for the secret does not begin or end between two letters.
	before, after int
	// least is how many bytes of the needle are taken for it where the text was cut.
	least int
}

// longest bounds a needle, in bytes. Pieces of a longer form overlap when it stands
// in a text, and so are replaced as one; by so much that one of them is found
// wherever the text was cut. The bound keeps a text of nothing but
// beginnings of secrets from taking quadratic time.
const longest = 512

// needles returns all forms of the secrets.
func needles(secrets map[string]struct{}) []needle {
	all := map[needle]struct{}{}
	for secret := range secrets {
		starts := written(secret[:commonStart(secret)])
		for i, text := range written(secret) {
			cutUp(all, needle{text: text, least: common(text, starts[i]) + leastStart})
		}
		for _, n := range encoded(secret) {
			cutUp(all, n)
			for _, again := range encoded(n.text) {
				// Of a letter that has bits of the secret no bit is to be seen: it is spread
				// over two letters.
				again.before, again.after = max(again.before, 2*n.before), max(again.after, 2*n.after)
				cutUp(all, again)
			}
		}
	}
	return slices.Collect(maps.Keys(all))
}

// cutUp adds n in pieces of which none is too short to be looked for.
func cutUp(all map[needle]struct{}, n needle) {
	for len(n.text) > longest+gram {
		all[needle{text: n.text[:longest], before: n.before, least: n.least}] = struct{}{}
		n.text, n.before, n.least = n.text[longest-leastStart:], 0, leastStart
	}
	all[n] = struct{}{}
}

// written returns the texts that stand for the secret in quoted and escaped text.
// Some of them may be equal.
func written(secret string) []string {
	texts := []string{
		secret,
		strings.Join(strings.Fields(secret), " "),           // on one line, as in a summary
		strings.ToValidUTF8(secret, string(utf8.RuneError)), // as JSON gives it back
		strings.ReplaceAll(secret, "'", "''"),               // YAML in single quotes
		unquoted(strconv.Quote(secret)),                     // Go's %q
		unquoted(strconv.QuoteToASCII(secret)),
		quotedYAML(secret, utf8.MaxRune),
		quotedYAML(secret, 0xffff),
	}
	for _, html := range []bool{false, true} {
		once := unquoted(string(quoteJSON(secret, html)))
		// JSON in a string of JSON, as in an annotation of the last applied configuration.
		twice := unquoted(string(quoteJSON(once, html)))
		texts = append(texts, once, twice, ascii(once), unquoted(string(quoteJSON(ascii(once), html))))
	}
	for _, keep := range []string{"-_.~", "-_.~$&+=:@", "-_.~$&+,;=", "-_.~$&+,/:;=@", "-_.~!*'()", "-_.*"} {
		lower, upper := percent(secret, keep, "%%%02x"), percent(secret, keep, "%%%02X")
		texts = append(texts, lower, upper, strings.ReplaceAll(lower, "%20", "+"), strings.ReplaceAll(upper, "%20", "+"))
	}
	return texts
}

func unquoted(text string) string { return text[1 : len(text)-1] }

func quoteJSON(text string, html bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		panic(err) // a string is always encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ascii escapes all that is not ASCII as JSON does.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// quotedYAML is the inside of a text that the usual YAML writers put in double
// quotes; they differ in the last character that they do not escape.
func quotedYAML(text string, last rune) string {
	special := map[rune]string{
		0: `\0`, '\a': `\a`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\v': `\v`, '\f': `\f`, '\r': `\r`, 0x1b: `\e`,
		'"': `\"`, '\\': `\\`, 0x85: `\N`, 0xa0: `\_`, 0x2028: `\L`, 0x2029: `\P`,
	}
	var b strings.Builder
	for _, r := range text {
		switch escape, ok := special[r]; {
		case ok:
			b.WriteString(escape)
		case strconv.IsPrint(r) && r <= last:
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02X`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	return b.String()
}

// percent writes text for a URL: all but letters, digits and keep by format.
func percent(text, keep, format string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, format, c)
		}
	}
	return b.String()
}

// encoded returns what is certain to stand in base64 of any text that has the
// secret in it. There are three such, for base64 writes three bytes as four
// letters and the secret may start at any of the three; each in two alphabets.
func encoded(secret string) []needle {
	var all []needle
	for lead := range 3 {
		// Letter i has the bits from 6i up to 6i+6; the secret has those from
		// 8·lead up to 8·(lead+len(secret)).
		first, end := (8*lead+5)/6, 8*(lead+len(secret))/6
		padded := make([]byte, lead+len(secret)+3)
		copy(padded[lead:], secret)
		for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			all = append(all, needle{
				text:   alphabet.EncodeToString(padded)[first:end],
				before: min(lead, 1),
				after:  min((lead+len(secret))%3, 1),
				least:  leastStart,
			})
		}
	}
	return all
}
