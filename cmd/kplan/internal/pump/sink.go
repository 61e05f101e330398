package pump

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"time"
)

// Sink is an output that is given up at its first error. What draws fills Buf.
type Sink struct {
	Out io.Writer
	Buf bytes.Buffer
	err error
}

// Tick implements Drawer for what shows no time.
func (s *Sink) Tick(time.Time) {}

// Flush writes what is in Buf.
func (s *Sink) Flush() {
	if s.err == nil && s.Buf.Len() > 0 {
		_, s.err = s.Out.Write(s.Buf.Bytes())
	}
	s.Buf.Reset()
}

// Close returns the error worth telling: that a reader went away is not.
func (s *Sink) Close() error {
	s.Flush()
	if errors.Is(s.err, syscall.EPIPE) || errors.Is(s.err, syscall.EIO) || errors.Is(s.err, io.ErrClosedPipe) { // EIO: the terminal is gone
		return nil
	}
	return s.err
}
