package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
)

// errDeclined says that somebody was asked and did not say yes.
var errDeclined = errors.New("not confirmed: nothing was done")

// confirm asks a question on the terminal. Without one it takes --yes to say yes.
func (a *app) confirm(question string) error {
	if !tty.Is(a.stdin) {
		return &usageError{err: errors.New("there is no terminal to ask: " + question), hint: "--yes says yes"}
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return errDeclined
	}
	return nil
}
