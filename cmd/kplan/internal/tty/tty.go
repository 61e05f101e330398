// Package tty tells what a stream leads to, and what can be written there.
//
// It draws nothing, and reads the environment only.
package tty

import (
	"cmp"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns the width and height of the terminal w; ok is false if w is none.
func Size(w io.Writer) (width, height int, ok bool) {
	if !Is(w) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(w.(*os.File).Fd()))
	return width, height, err == nil
}

// Colour reports whether to write colours to w: NO_COLOR wins over CLICOLOR_FORCE,
// and else it takes a terminal that is not dumb.
func Colour(w io.Writer) bool {
	switch force := os.Getenv("CLICOLOR_FORCE"); {
	case os.Getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	}
	return os.Getenv("TERM") != "dumb" && Is(w)
}

// Unicode reports whether a terminal is likely to show more than ASCII.
func Unicode() bool {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return runtime.GOOS == "windows" || strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}

// Stdout is a stdout whose reader may go away, as in kplan … | head -1: what it does
// not want to read any more is no fault of the command.
type Stdout struct{ io.Writer }

func (s Stdout) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// Unwrap returns the writer beneath a Stdout, and any other as it is.
func Unwrap(w io.Writer) io.Writer {
	if s, ok := w.(Stdout); ok {
		return s.Writer
	}
	return w
}
