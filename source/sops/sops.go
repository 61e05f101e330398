// Package sops reads YAML and JSON files that are encrypted with SOPS
// (https://getsops.io), in memory, with an age key that is at hand.
//
// It does not encrypt, writes nothing to disk, runs no program, and asks no
// service: files whose data key only PGP, a cloud's key service or Vault can open
// are refused, as are those whose data key is split among groups of keys, and the
// dotenv and ini forms. The format is described at https://getsops.io/docs; what that
// leaves open was taken from getsops/sops v3.13.
package sops

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Error says why a file cannot be decrypted, and where in it.
type Error struct {
	// Line and Column are those of the encrypted file, counted from 1; 0 for the
	// file as a whole.
	Line, Column int
	Message      string
	hint         string
	noKey        bool
}

// Error implements error. It has no position: who names the file puts it there.
func (e *Error) Error() string { return e.Message }

// Hint says what can be done about it; "" for nothing in particular.
func (e *Error) Hint() string { return e.hint }

// Position is Line and Column.
func (e *Error) Position() (line, column int) { return e.Line, e.Column }

// NoKey reports whether all that is missing is a key that opens the file.
func (e *Error) NoKey() bool { return e.noKey }

// Text is a file that was decrypted.
type Text struct {
	// Bytes are what was encrypted, without the sops block. Lines of a file in block
	// style stay where they were.
	Bytes []byte
	// Secrets are the values that were encrypted, texts and numbers. What a Secret's
	// data holds is among them also as it is without base64.
	Secrets []any
}

// IsEncrypted reports whether a YAML or JSON file is encrypted with SOPS: whether it
// has a sops block with what SOPS itself puts there. Custom resources that an
// operator in the cluster decrypts, of kind SopsSecret, are not meant.
func IsEncrypted(src []byte) bool {
	if !bytes.Contains(src, []byte("sops")) || !bytes.Contains(src, []byte("lastmodified")) {
		return false
	}
	docs, err := parse(src)
	return err == nil && isEncrypted(docs)
}

func isEncrypted(docs []*yamlv3.Node) bool {
	if len(docs) == 0 {
		return false
	}
	modified := field(field(docs[0].Content[0], blockKey), "lastmodified")
	kind := field(docs[0].Content[0], "kind")
	return modified != nil && (kind == nil || kind.Value != "SopsSecret")
}

// Decrypt returns the text of a file that is encrypted, see IsEncrypted. The error is an
// *Error.
func Decrypt(src []byte, keys *Keyring) (Text, error) {
	docs, err := parse(src)
	if err != nil {
		return Text{}, &Error{Message: "cannot be decrypted: it is no YAML"}
	}
	if !isEncrypted(docs) {
		return Text{}, &Error{Message: "is not encrypted with SOPS"}
	}
	head, err := readHead(docs[0].Content[0])
	if err != nil {
		return Text{}, err
	}
	key, err := head.dataKey(keys)
	if err != nil {
		return Text{}, err
	}
	w, err := newWalk(head, key)
	if err != nil {
		return Text{}, err
	}
	for _, doc := range docs {
		drop(doc.Content[0], w)
		if err := w.document(doc); err != nil {
			return Text{}, err
		}
	}
	if err := head.verify(w.sum(), key); err != nil {
		return Text{}, err
	}
	plain, err := w.render(src, docs)
	if err != nil {
		return Text{}, err
	}
	return Text{Bytes: plain, Secrets: append(w.secrets, unwrapped(docs)...)}, nil
}

// DecryptBinary returns what a file holds that SOPS encrypted as one piece, whatever
// is in it, and whether it is such a file. The error is an *Error.
func DecryptBinary(src []byte, keys *Keyring) (plain []byte, ok bool, err error) {
	if !IsEncrypted(src) {
		return nil, false, nil
	}
	docs, err := parse(src)
	if err != nil || len(docs) != 1 || len(docs[0].Content[0].Content) != 4 {
		return nil, false, nil
	}
	if data := field(docs[0].Content[0], "data"); data == nil || data.Kind != yamlv3.ScalarNode {
		return nil, false, nil
	}
	text, err := Decrypt(src, keys)
	if err != nil {
		return nil, true, err
	}
	var whole struct {
		Data string `yaml:"data"`
	}
	if err := yamlv3.Unmarshal(text.Bytes, &whole); err != nil {
		return nil, true, &Error{Message: "what was encrypted is no text"}
	}
	return []byte(whole.Data), true, nil
}

// Form is how a file is written that SOPS encrypted.
type Form string

// The forms, by the names of files, as SOPS itself tells them apart.
const (
	// YAML is YAML and JSON.
	YAML Form = "yaml"
	// Dotenv and Ini are not read here.
	Dotenv Form = "dotenv"
	Ini    Form = "ini"
	// Binary is a JSON file that has another one as a whole.
	Binary Form = "binary"
)

// FormOf is the form of a file by its name.
func FormOf(name string) Form {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return YAML
	case ".env":
		return Dotenv
	case ".ini":
		return Ini
	}
	return Binary
}

// parse reads the documents of a file.
func parse(src []byte) ([]*yamlv3.Node, error) {
	var docs []*yamlv3.Node
	d := yamlv3.NewDecoder(bytes.NewReader(src))
	for {
		doc := &yamlv3.Node{}
		switch err := d.Decode(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, doc)
	}
}

// field returns the value of a field of a mapping; nil when n has none.
func field(n *yamlv3.Node, name string) *yamlv3.Node {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// unwrapped are the texts that the data of Secrets holds in base64.
func unwrapped(docs []*yamlv3.Node) []any {
	var all []any
	for _, doc := range docs {
		object := doc.Content[0]
		kind, data := field(object, "kind"), field(object, "data")
		if kind == nil || kind.Value != "Secret" || data == nil || data.Kind != yamlv3.MappingNode {
			continue
		}
		for i := 1; i < len(data.Content); i += 2 {
			if text, err := base64.StdEncoding.DecodeString(data.Content[i].Value); err == nil {
				all = append(all, string(text))
			}
		}
	}
	return all
}

func faultAt(n *yamlv3.Node, hint, format string, args ...any) *Error {
	return &Error{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...), hint: hint}
}
