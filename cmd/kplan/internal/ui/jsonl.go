package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/runner"
)

// jsonl writes each event as one line of JSON.
type jsonl struct{ sink }

// NewJSON makes a renderer which writes every event as one line of JSON; it
// also records runs. The lines are pure ASCII where a terminal might obey
// them, and decode to exactly the events.
func NewJSON(out io.Writer) Renderer { return New(out, JSON, Options{}) }

func (j *jsonl) draw(e runner.Event) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil { // an event is plain data: it cannot fail to encode
		panic(err)
	}
	j.buf.Write(InertJSON(line.Bytes()))
}

// InertJSON escapes the characters of JSON text that encoding/json leaves as they
// are although terminals may obey or hide them, and what the runner of GitHub
// Actions takes for a command anywhere in a line.
func InertJSON(b []byte) []byte {
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
