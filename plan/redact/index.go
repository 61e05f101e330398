package redact

import (
	"cmp"
	"slices"
	"strings"
)

// gram is how many bytes a needle has at least, and by how many it is found.
const gram = 4

// index finds needles in a text. It is not changed once it was made.
type index struct {
	// needles are by their first gram, long ones first.
	needles map[uint32][]needle
	first   filter // of the grams in needles
	inner   *inner
}

// filter is a set of grams that may have others too: it has a bit for the hash of each.
// Nearly all places of a text are passed over by it.
type filter [1 << (filterBits - 6)]uint64

// filterBits is the logarithm of the filter's size in bits: 16 KiB, which stay in
// the fastest cache.
const filterBits = 17

func hash(gram uint32) uint32 { return gram * 0x9e3779b1 >> (32 - filterBits) }

func (f *filter) add(gram uint32) { h := hash(gram); f[h/64] |= 1 << (h % 64) }

func (f *filter) has(gram uint32) bool { h := hash(gram); return f[h/64]&(1<<(h%64)) != 0 }

// gramOf returns the gram that text starts with.
func gramOf(text string) uint32 {
	return uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
}

func newIndex(secrets map[string]struct{}) *index {
	x := &index{needles: map[uint32][]needle{}, inner: newInner(secrets)}
	for _, n := range needles(secrets) {
		if len(n.text) < gram {
			continue // of a form that is shorter than the secret, such as one on one line
		}
		g := gramOf(n.text)
		x.first.add(g)
		x.needles[g] = append(x.needles[g], n)
	}
	for _, same := range x.needles {
		slices.SortFunc(same, func(a, b needle) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
		})
	}
	return x
}

// replace puts Mark in the place of needles.
func (x *index) replace(text string) string {
	if len(x.needles) == 0 || len(text) < gram {
		return text
	}
	spans := merged(append(x.spans(text), x.wrapped(text)...))
	if len(spans) == 0 {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	kept := 0 // up to where text is in out
	for _, s := range spans {
		out.WriteString(text[kept:s.from] + Mark)
		kept = s.to
	}
	out.WriteString(text[kept:])
	return out.String()
}

// spans finds needles. It looks at every place, also inside of what was found, so
// that of two that overlap nothing is left.
func (x *index) spans(text string) []span {
	var all []span
	for i := range len(text) - gram + 1 {
		if g := gramOf(text[i : i+gram]); x.first.has(g) {
			if s, found := x.match(text, i, g); found {
				all = append(all, s)
			}
		}
	}
	return all
}

// match finds what is to be replaced for the needles that start at i.
func (x *index) match(text string, i int, g uint32) (all span, found bool) {
	rest := text[i:]
	for _, n := range x.needles[g] {
		length := len(n.text)
		whole := strings.HasPrefix(rest, n.text)
		if !whole {
			if length = common(rest, n.text); length < n.least || !isCut(rest[length:]) {
				continue
			}
		}
		from, to := i, i+length
		for from > max(0, i-n.before) && isBase64(text[from-1]) {
			from--
		}
		if whole && n.after > 0 {
			to += wordLen(text[to:min(to+n.after, len(text))])
			to += paddingLen(text[to:])
		}
		if !found {
			all, found = span{from, to}, true
		}
		all = span{min(all.from, from), max(all.to, to)}
	}
	return all, found
}

// leastStart is how many bytes of a secret's start are hidden where a text was cut.
const leastStart = 8

// isCut reports whether a text that goes on with rest can have been cut there: at its
// end, at that of a line or of a quoted text, or before an ellipsis.
func isCut(rest string) bool {
	return rest == "" || strings.IndexByte("\r\n\"'`", rest[0]) >= 0 || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...")
}

// common is how many bytes a and b have in common at their start.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func isBase64(c byte) bool { return letters[c] }

var letters = func() (all [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_") {
		all[c] = true
	}
	return all
}()
