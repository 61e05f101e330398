package ui

import (
	"io"
	"sync/atomic"
)

// Aside is a renderer as that of Plain, which stands by while something else shows
// the run: until Speak it writes nothing but the summary, when it is closed.
type Aside struct {
	Renderer
	aside *aside
}

// NewAside makes a renderer that stands by.
func NewAside(out io.Writer, o Options) *Aside {
	a := &aside{plain: newPlain(out, o)}
	return &Aside{newPump(a), a}
}

// Speak makes it write what happens from now on.
func (a *Aside) Speak() { a.aside.speaks.Store(true) }

// aside drops the lines that were shown elsewhere.
type aside struct {
	*plain
	speaks atomic.Bool
}

func (a *aside) flush() {
	a.hush()
	a.plain.flush()
}

func (a *aside) close() error {
	a.hush()
	return a.plain.close()
}

func (a *aside) hush() {
	if !a.speaks.Load() {
		a.buf.Reset()
	}
}
