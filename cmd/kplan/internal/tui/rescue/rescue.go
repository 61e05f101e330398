// Package rescue gives back a terminal that a program could not give back, because
// it died: of a panic in any goroutine, a fatal error of Go's runtime, or kill -9.
//
// A watchdog does it, which also takes what Go's runtime writes of a crash (see
// runtime/debug.SetCrashOutput). It does not catch the panic, and knows nothing of
// what the program did.
package rescue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/watchdog"
)

var kind = watchdog.Kind{Variable: "KPLAN_RESCUE", Name: "terminal-rescue"}

// order says what is to be done when the program is dead.
type order struct {
	// Settings are those to give the terminal back.
	Settings *terminalSettings
	// Hint is what to tell whose program was killed; it may be empty.
	Hint string
}

// leave takes back what displays ask of terminals: the mouse, pasting in brackets,
// colours, a hidden cursor and the alternate screen.
const leave = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l"

// longestTrace bounds what is kept of a crash, in bytes.
const longestTrace = 1 << 20

// Watchdog is the process that waits for the death of this one.
type Watchdog struct{ process *watchdog.Process }

// Watch starts a process that waits for the death of this one, gives the terminal in
// the settings back that it has now, and tells on out what happened, with a hint if
// it was killed. The program must call Main first of all. Close ends the process.
func Watch(in, out *os.File, hint string) (*Watchdog, error) {
	was, err := settings(in)
	if err != nil {
		return nil, fmt.Errorf("reading the terminal's settings: %w", err)
	}
	process, err := kind.Start(order{was, hint}, out, in)
	if err != nil {
		return nil, err
	}
	w := &Watchdog{process}
	if err := debug.SetCrashOutput(process.Alive, debug.CrashOptions{}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close ends the process: this one has given the terminal back itself.
func (w *Watchdog) Close() error {
	return errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), w.process.Close())
}

// Main does the work of the process that Watch starts, and exits. In any other
// process it does nothing.
func Main() {
	watchdog.Main(kind, func(o order) error { return o.wait(os.Stdin, os.Stdout, os.NewFile(3, "terminal")) })
}

// wait reads from alive until the process at its other end is dead, and gives the
// terminal back. It writes to out what that process said at its end.
func (o order) wait(alive io.Reader, out io.Writer, terminal *os.File) error {
	trace := make([]byte, 1)
	n, _ := io.ReadFull(alive, trace)
	if n == 0 {
		_, left := io.WriteString(out, leave)
		restored := restore(terminal, o.Settings) // before lines are written, for it may not begin them anew
		_, told := io.WriteString(out, o.killed())
		return errors.Join(left, restored, told)
	}
	// At once: a shell takes the settings that it finds when the process has gone.
	// The screen has to wait until that process writes no more.
	err := restore(terminal, o.Settings)
	rest, _ := io.ReadAll(io.LimitReader(alive, longestTrace)) // what was read counts
	_, _ = io.Copy(io.Discard, alive)                          // ends when the process does
	_, e := io.WriteString(out, leave+crashed(string(trace)+string(rest)))
	return errors.Join(err, e)
}

// killed says that the process ended without a word.
func (o order) killed() string {
	text := "error: kplan was killed\n"
	if o.Hint != "" {
		text += "hint: " + o.Hint + "\n"
	}
	return text
}

// crashed says what the process said of its end.
func crashed(trace string) string {
	if strings.HasPrefix(trace, "SIGQUIT:") {
		return trace + "\nerror: kplan got SIGQUIT: what is above says what it was at\n"
	}
	return trace + "\nerror: kplan crashed: what is above says where\n" +
		"hint: that is a fault of kplan; please report it with these lines\n"
}
