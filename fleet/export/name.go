package export

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// maxName is how long names of objects are at most. Jobs and Workflows add to theirs for
// their pods, and labels have 63 characters.
const maxName = 52

// unique names an object of a kind in a namespace, made of words that say what it stands
// for. Words that look alike as a name, such as those of the steps a[b] and a-b, get different
// ones; the same words always the same.
func (x *exporter) unique(kind, namespace string, words ...string) string {
	of := kind + "\x00" + namespace + "\x00"
	key := of + strings.Join(words, "\x00")
	if name, is := x.names[key]; is {
		return name
	}
	name := objectName(words...)
	if x.keys[of+name] != "" {
		name = shortened(name, maxName-9) + "-" + shortDigest(key)
	}
	x.names[key], x.keys[of+name] = name, key
	return name
}

// objectName makes the name of an object of words: a DNS label of at most maxName characters.
func objectName(words ...string) string {
	all := strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), "-")
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, all), "-")
	switch {
	case name == "":
		return "x" + shortDigest(all)
	case len(name) <= maxName:
		return name
	}
	return shortened(name, maxName-9) + "-" + shortDigest(all)
}

func shortened(name string, most int) string {
	return strings.TrimRight(name[:min(len(name), most)], "-")
}

func shortDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
