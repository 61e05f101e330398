package ui

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
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
	j.buf.Write(data.Inert(line.Bytes()))
}
