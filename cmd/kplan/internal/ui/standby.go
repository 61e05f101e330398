package ui

import (
	"io"
	"sync/atomic"
)

// Standby is a renderer as that of Plain, which stands by while something else shows
// the run: until Speak it writes nothing but the summary, when it is closed.
type Standby struct {
	Renderer
	standby *standby
}

// NewStandby makes a renderer that stands by.
func NewStandby(out io.Writer, o Options) *Standby {
	a := &standby{plain: newPlain(out, o)}
	return &Standby{newPump(a), a}
}

// Speak makes it write what happens from now on.
func (a *Standby) Speak() { a.standby.speaks.Store(true) }

// standby drops the lines that were shown elsewhere.
type standby struct {
	*plain
	speaks atomic.Bool
}

func (a *standby) flush() {
	a.hush()
	a.plain.flush()
}

func (a *standby) close() error {
	a.hush()
	return a.plain.close()
}

func (a *standby) hush() {
	if !a.speaks.Load() {
		a.buf.Reset()
	}
}
