package sops

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
)

// onlyEncrypted begins the sum of a file where only encrypted values are summed, so that
// it cannot be taken for another's.
var onlyEncrypted = sha256.Sum256([]byte("sops"))

// walk goes through a file in its order, decrypts its values in place and sums them.
type walk struct {
	rules   rules
	macOnly bool
	key     []byte
	hash    hash.Hash
	secrets []any
	splice
}

func newWalk(h *head, key []byte) (*walk, error) {
	r, err := h.rules()
	if err != nil {
		return nil, err
	}
	w := &walk{rules: r, macOnly: h.MACOnlyEncrypted, key: key, hash: sha512.New()}
	if w.macOnly {
		w.hash.Write(onlyEncrypted[:])
	}
	return w, nil
}

// sum is that of all values, as SOPS writes it.
func (w *walk) sum() string { return fmt.Sprintf("%X", w.hash.Sum(nil)) }

// scope is where a value stands.
type scope struct {
	path []string
	// comments are those before the value, and before the mappings and lists around
	// it, a level each. A comment holds for the next value only.
	comments [][]string
}

func (s scope) below() scope {
	return scope{s.path, append(slices.Clip(s.comments), nil)}
}

func (s scope) field(name string) scope {
	return scope{append(slices.Clip(s.path), name), s.comments}
}

func (s scope) note(text string) {
	top := len(s.comments) - 1
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			s.comments[top] = append(slices.Clip(s.comments[top]), line[1:])
		}
	}
}

func (s scope) passed() { s.comments[len(s.comments)-1] = nil }

// document goes through one document of a file.
func (w *walk) document(doc *yamlv3.Node) error {
	root := doc.Content[0]
	if root.Kind == yamlv3.ScalarNode && root.ShortTag() == "!!null" {
		return nil
	}
	if root.Kind != yamlv3.MappingNode {
		return faultAt(root, "", "a document that is no mapping is not encrypted by SOPS")
	}
	s := scope{comments: [][]string{nil}}
	s.note(doc.HeadComment)
	s.note(doc.LineComment)
	s.note(root.HeadComment)
	s.note(root.LineComment)
	return w.fields(root, s)
}

// value goes through a value. A scalar's comments, and those of an item of a list, are
// noted already.
func (w *walk) value(n *yamlv3.Node, s scope, noted bool) error {
	switch n.Kind {
	case yamlv3.MappingNode, yamlv3.SequenceNode:
		s = s.below()
		if !noted {
			s.note(n.HeadComment)
			s.note(n.LineComment)
		}
		if n.Kind == yamlv3.MappingNode {
			return w.fields(n, s)
		}
		return w.items(n, s)
	case yamlv3.ScalarNode:
		return w.scalar(n, s)
	default:
		return faultAt(n, "write out what the alias stands for, then encrypt the file anew", "anchors and aliases are not understood in an encrypted file")
	}
}

func (w *walk) fields(n *yamlv3.Node, s scope) error {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yamlv3.ScalarNode || key.ShortTag() != "!!str" && key.ShortTag() != "!!merge":
			return faultAt(key, "quote it", "the name of a field is no text")
		case seen[key.Value]:
			return faultAt(key, "", "the field %q is given twice", cut(key.Value))
		}
		seen[key.Value] = true
		s.note(key.HeadComment)
		s.note(key.LineComment)
		scalar := value.Kind == yamlv3.ScalarNode
		if scalar {
			s.note(value.HeadComment)
			s.note(value.LineComment)
		}
		if err := w.value(value, s.field(key.Value), scalar); err != nil {
			if errors.Is(err, errIsComment) {
				err = w.refuse(value, s.field(key.Value), errType)
			}
			return err
		}
		s.passed()
		if scalar {
			s.note(value.FootComment)
		}
		s.note(key.FootComment)
	}
	return nil
}

// errIsComment says that an item of a list was a comment.
var errIsComment = errors.New("is a comment")

func (w *walk) items(n *yamlv3.Node, s scope) error {
	var keep []*yamlv3.Node
	for _, item := range n.Content {
		s.note(item.HeadComment)
		s.note(item.LineComment)
		switch err := w.value(item, s, true); {
		case errors.Is(err, errIsComment):
			w.removeItem(item)
		case err != nil:
			return err
		default:
			keep = append(keep, item)
		}
		s.passed()
		s.note(item.FootComment)
	}
	n.Content = keep
	return nil
}

func (w *walk) scalar(n *yamlv3.Node, s scope) error {
	if n.ShortTag() == "!!null" {
		return nil
	}
	if !w.rules.encrypted(s.path, s.comments) {
		if w.macOnly {
			return nil
		}
		summed, err := plainBytes(n)
		if err != nil {
			return w.refuse(n, s, err)
		}
		w.hash.Write(summed)
		return nil
	}
	if n.ShortTag() != "!!str" {
		return w.refuse(n, s, errForm)
	}
	value, summed, err := open(n.Value, w.key, strings.Join(s.path, ":")+":")
	if err != nil {
		return w.refuse(n, s, err)
	}
	if _, is := value.(comment); is {
		return errIsComment
	}
	w.hash.Write(summed)
	if n.Value != "" {
		w.secrets = append(w.secrets, value)
		w.replace(n, value)
	}
	return nil
}

func (w *walk) refuse(n *yamlv3.Node, s scope, err error) error {
	return faultAt(n, "encrypt the file anew from its plain text: sops encrypt --in-place FILE", "the value of %s %v", cut(strings.Join(s.path, ".")), err)
}

// plainBytes are what of a value that is not encrypted goes into the sum.
func plainBytes(n *yamlv3.Node) ([]byte, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, errPlain
	}
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case float64:
		return floatText(v), nil
	case bool:
		return boolText(v), nil
	case time.Time:
		return v.MarshalText()
	}
	return nil, errType
}

func cut(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}
