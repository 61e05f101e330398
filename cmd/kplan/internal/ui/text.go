package ui

import (
	"fmt"
	"io"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// Problem writes an error and what to do about it, as every command does.
func Problem(w io.Writer, o Options, text, hint string) {
	fmt.Fprintf(w, "%s %s\n", o.paint("31;1", "error:"), words.Indent(o.Clean(text), "  "))
	if hint != "" {
		fmt.Fprintf(w, "%s %s\n", o.paint("36", "hint:"), words.Indent(o.Clean(hint), "  "))
	}
}

// paint puts s into the colour of an SGR code.
func (o Options) paint(code, s string) string {
	if !o.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
