// Package interrupt turns the signals by which people and systems stop a program
// into the end of a context, and a further one into an order to abort.
//
// It stops nothing itself: who holds the context does.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kplan-dev/kplan/runner"
)

// Signals are those that a context made by Context listens to.
type Signals struct {
	// Abort is closed by the second signal, or by the first if the context has ended
	// by itself.
	Abort <-chan struct{}

	received chan os.Signal
	over     chan struct{} // closed by Release
	cancel   context.CancelCauseFunc
}

// Context returns a context that the first ^C, SIGTERM or SIGHUP (the terminal is
// gone) ends, with a *runner.Interrupted as its cause. Under nohup SIGHUP stays
// ignored. From the one on that aborts, signals do what they do by default, so that
// one more kills. The caller calls Release when there is nothing left to stop; it
// ends the goroutine that listens.
func Context(parent context.Context) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(parent)
	abort := make(chan struct{})
	s := &Signals{Abort: abort, received: make(chan os.Signal, 2), over: make(chan struct{}), cancel: cancel}
	signal.Notify(s.received, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(s.received, syscall.SIGHUP)
	}
	go func() {
		defer signal.Stop(s.received)
		select {
		case by := <-s.received:
			if context.Cause(parent) != nil {
				close(abort)
				return
			}
			cancel(&runner.Interrupted{Signal: by})
		case <-s.over:
			return
		}
		select {
		case <-s.received:
			close(abort)
		case <-s.over:
		}
	}()
	return ctx, s
}

// Interrupt does what ^C does, where that is no signal but a key.
func (s *Signals) Interrupt() {
	select {
	case s.received <- os.Interrupt:
	default: // two wait already: more say nothing new
	}
}

// Release ends the context, and what listens to signals.
func (s *Signals) Release() {
	close(s.over)
	s.cancel(nil)
}
