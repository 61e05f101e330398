// Package data writes results for programs, as JSON or YAML in which a terminal finds
// nothing to obey.
//
// What the results are is their makers' business.
package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/plan/redact"
)

// Format is how a result is written.
type Format string

// The formats.
const (
	JSON Format = "json"
	YAML Format = "yaml"
)

// Write writes v without what is sensitive.
func Write(w io.Writer, f Format, v any, secrets *redact.Set) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if b = append(secrets.JSON(b), '\n'); f == YAML {
		b, err = yaml.JSONToYAML(b)
	} else {
		b = Inert(b)
	}
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// Line writes v as one line of JSON. It is plain data, which cannot fail to encode.
func Line(v any) []byte {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return Inert(line.Bytes())
}

// Inert escapes the characters of JSON text that encoding/json leaves as they
// are although terminals may obey or hide them, and what the runner of GitHub
// Actions takes for a command anywhere in a line.
func Inert(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("##["), []byte(`#\u0023[`))
	if bytes.IndexFunc(b, clean.Perilous) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case !clean.Perilous(r):
			out = append(out, b[:n]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out
}
