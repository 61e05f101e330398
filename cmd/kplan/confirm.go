package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
)

// question is what a person is asked before something is done.
type question struct {
	// text asks it.
	text string
	// whole wants yes, and takes no y for it.
	whole bool
	// done names, in the past, what is not done without a yes: run, deleted.
	done string
	// instead is what to do where there is no terminal to ask on.
	instead string
}

// confirm asks a question on the terminal. The error says that there is none, that the
// answer was not yes, or why ctx ended.
func (a *app) confirm(ctx context.Context, q question) error {
	if !tty.Is(a.stdin) || !tty.Is(a.stderr) {
		return &usageError{err: errors.New("there is no terminal to ask: " + q.text), hint: q.instead}
	}
	choice := " [y/N] "
	if q.whole {
		choice = " Only yes will do: "
	}
	fmt.Fprint(a.stderr, q.text+choice)
	answer := make(chan string, 1)
	go func() { // ends with the line, or with the program
		line, _ := bufio.NewReader(io.LimitReader(a.stdin, 1<<10)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line == "yes" || line == "y" && !q.whole {
			return nil
		}
		return fmt.Errorf("nothing was %s: the answer was not yes", q.done)
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return context.Cause(ctx)
	}
}
