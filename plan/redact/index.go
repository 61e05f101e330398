package redact

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// gram is how many bytes a needle has at least, and by how many it is found.
const gram = 4

// index finds needles in a text. It is not changed once it was made.
type index struct {
	// needles are by their first gram, long ones first.
	needles map[uint32][]needle
	// filter has a bit for the hash of every gram in needles: nearly all places of
	// a text are passed over by it.
	filter [1 << (filterBits - 6)]uint64
	inner  *inner
}

// filterBits is the logarithm of the filter's size in bits: 16 KiB, which stay in
// the fastest cache.
const filterBits = 17

func hash(gram uint32) uint32 { return gram * 0x9e3779b1 >> (32 - filterBits) }

func newIndex(secrets map[string]struct{}) *index {
	x := &index{needles: map[uint32][]needle{}, inner: newInner(secrets)}
	for _, n := range needles(secrets) {
		if len(n.text) < gram {
			continue // of a form that is shorter than the secret, such as one on one line
		}
		g := binary.LittleEndian.Uint32([]byte(n.text))
		h := hash(g)
		x.filter[h/64] |= 1 << (h % 64)
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
		g := uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16 | uint32(text[i+3])<<24
		h := hash(g)
		if x.filter[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		if start, end, found := x.match(text, i, g); found {
			all = append(all, span{start, end})
		}
	}
	return all
}

// match finds what is to be replaced for the needles that start at i.
func (x *index) match(text string, i int, g uint32) (start, end int, found bool) {
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
		for range n.before {
			if from > 0 && isBase64(text[from-1]) {
				from--
			}
		}
		if whole && n.after > 0 {
			for range n.after {
				if to < len(text) && isBase64(text[to]) {
					to++
				}
			}
			for to < len(text) && text[to] == '=' {
				to++
			}
		}
		if !found {
			start, end, found = from, to, true
		}
		start, end = min(start, from), max(end, to)
	}
	return start, end, found
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
