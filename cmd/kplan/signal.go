package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kplan-dev/kplan/runner"
)

// stoppable makes a context that the first ^C, SIGTERM or SIGHUP (the terminal is
// gone) ends, with a *runner.Interrupted as its cause. Under nohup SIGHUP stays
// ignored. The next one, or the first if parent has ended, closes abort; from then
// on signals do what they do by default, so that one more kills. interrupt does what ^C does, where that is no signal but a key.
// The caller calls release when there is nothing left to stop; it ends the goroutine.
func stoppable(parent context.Context) (ctx context.Context, abort <-chan struct{}, interrupt, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	aborted, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			if context.Cause(parent) != nil {
				close(aborted)
				return
			}
			cancel(&runner.Interrupted{Signal: s})
		case <-over:
			return
		}
		select {
		case <-signals:
			close(aborted)
		case <-over:
		}
	}()
	interrupt = func() {
		select {
		case signals <- os.Interrupt:
		default: // two wait already: more say nothing new
		}
	}
	return ctx, aborted, interrupt, func() {
		close(over)
		cancel(nil)
	}
}
