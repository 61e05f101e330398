package ui

import (
	"io"
	"sync/atomic"
)

// Standby is a renderer as that of Plain, which stands by while something else shows
// the run: until Speak it writes nothing but the summary, when it is closed.
type Standby struct {
	Renderer
	drawer *standby
}

// NewStandby makes a renderer that stands by.
func NewStandby(out io.Writer, o Options) *Standby {
	d := &standby{plain: newPlain(out, o)}
	return &Standby{newPump(d), d}
}

// Speak makes it write what happens from now on.
func (a *Standby) Speak() { a.drawer.speaks.Store(true) }

// standby drops the lines that were shown elsewhere.
type standby struct {
	*plain
	speaks atomic.Bool
}

func (a *standby) flush() {
	if !a.speaks.Load() {
		a.buf.Reset()
	}
	a.plain.flush()
}

func (a *standby) close() error {
	a.flush()
	return a.plain.close()
}
