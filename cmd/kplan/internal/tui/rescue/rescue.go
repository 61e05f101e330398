// Package rescue gives back a terminal that a program could not give back, because
// it died: of a panic in any goroutine, a fatal error of Go's runtime, or kill -9.
//
// A dead process can do nothing more, so a second process of the same program waits
// for that, as runtime/debug.SetCrashOutput is meant to be used. It does not catch
// the panic, and knows nothing of what the program did.
package rescue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
)

// variable is that of the environment which makes a process the one that waits. Its
// value is an order as JSON.
const variable = "KPLAN_RESCUE"

// order says what is to be done when the program is dead.
type order struct {
	// Settings are those to give the terminal back.
	Settings *terminalSettings
	// Hint is what to tell whose program was killed; it may be empty.
	Hint string
}

// name is what lists of processes have for the one that waits: not the program's, or
// who kills the program by its name would kill both.
const name = "terminal-guard"

// leave takes back what displays ask of terminals: the mouse, pasting in brackets,
// colours, a hidden cursor and the alternate screen.
const leave = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l"

// longestTrace bounds what is kept of a crash, in bytes.
const longestTrace = 1 << 20

// Guard is the process that waits for the death of this one.
type Guard struct {
	process *exec.Cmd
	alive   *os.File // the process sees its end
}

// Watch starts a process that waits for the death of this one, gives the terminal in
// the settings back that it has now, and tells on out what happened, with a hint if
// it was killed. The program must call Main first of all. Close ends the process.
func Watch(in, out *os.File, hint string) (*Guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	was, err := settings(in)
	if err != nil {
		return nil, fmt.Errorf("reading the terminal's settings: %w", err)
	}
	todo, err := json.Marshal(order{was, hint})
	if err != nil {
		return nil, err
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	process := exec.Command(self) //nolint:noctx // it has to outlive this process
	process.Args = []string{name}
	process.Env = []string{variable + "=" + string(todo)}
	process.Stdin, process.Stdout, process.ExtraFiles = read, out, []*os.File{in}
	process.SysProcAttr = apart()
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	g := &Guard{process, alive}
	if err := debug.SetCrashOutput(alive, debug.CrashOptions{}); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close ends the process: this one has given the terminal back itself.
func (g *Guard) Close() error {
	err := debug.SetCrashOutput(nil, debug.CrashOptions{})
	if e := g.process.Process.Kill(); e != nil && !errors.Is(e, os.ErrProcessDone) {
		err = errors.Join(err, e)
	}
	_ = g.process.Wait() // it was killed
	return errors.Join(err, g.alive.Close())
}

// Main does the work of the process that Watch starts, and exits. In any other
// process it does nothing.
func Main() {
	todo := os.Getenv(variable)
	if todo == "" {
		return
	}
	heedless()
	var o order
	err := json.Unmarshal([]byte(todo), &o)
	if err == nil {
		err = o.wait(os.Stdin, os.Stdout, os.NewFile(3, "terminal"))
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
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
