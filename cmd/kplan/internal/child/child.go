// Package child runs a command in the foreground as if its user had started it: with
// the terminal, the streams, signals and exit code left alone, and in a folder of
// files that nobody has any more when it is over.
//
// That holds also when this process is killed (kill -9): a second process of the same
// program waits for that, see package watchdog. It knows nothing of what the command
// does.
package child

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Exit codes of shells, and of env, nohup and timeout.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
	signalled         = 128 // and the number of the signal
)

// ExitError says that a command did not end with 0.
type ExitError struct {
	// Code is the command's, or 128 and the number of the signal that ended it.
	Code int
	// Signal is the name of that signal; "" when none did.
	Signal string
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// StartError says that a command could not be started.
type StartError struct {
	Command string
	Err     error
}

func (e *StartError) Error() string {
	err := e.Err
	if of := (*exec.Error)(nil); errors.As(err, &of) {
		err = of.Err
	}
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Sprintf("%s cannot be run: %v", e.Command, err)
}

// Unwrap gives Err.
func (e *StartError) Unwrap() error { return e.Err }

// ExitCode is what shells exit with then.
func (e *StartError) ExitCode() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNotExecutable
}

// Command is a program with its arguments.
type Command struct {
	Args []string
	// Env is the environment, without what Folder adds.
	Env []string
	// Streams of type *os.File are the command's own.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Folder is one that the command has the path of in its environment: what still
	// runs with it when the command died of a signal is waited for, or ended. It may be
	// nil.
	Folder *Folder
	// Waits, if any, is called when it takes a while until what an interrupted command
	// had started is over. Another signal to this process ends that.
	Waits func(pids []int)
}

// Find looks a command up as a shell does. The error is a *StartError.
func Find(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return &StartError{name, err}
	}
	return nil
}

// Run runs the command to its end. The error is an *ExitError, or a *StartError.
//
// SIGINT and SIGQUIT of a terminal reach the command by themselves and do nothing
// here; others that end a program are handed on, SIGTERM and SIGHUP unless the command
// ends of them by itself. So this process never ends before the command.
func (c *Command) Run() error {
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // signals end it
	cmd.Env = c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	release := bindToThread(cmd)
	defer release()
	signals := catch()
	defer signals.release()
	if err := cmd.Start(); err != nil {
		return &StartError{c.Args[0], err}
	}
	if c.Folder != nil {
		c.Folder.cleaner.mind(cmd.Process.Pid)
	}
	stop := signals.handOn(cmd.Process.Signal)
	err := cmd.Wait()
	stop()
	if c.Folder != nil {
		c.Folder.cleaner.mind(0) // its number may be another's soon
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return &StartError{c.Args[0], err} // its streams could not be copied
	}
	e := exitOf(exit)
	if e.Signal != "" && c.Folder != nil {
		signals.endLeft(e, c.Folder.Path, c.Waits)
	}
	return e
}

// Folder is a folder for this user alone, which is gone when this process is.
type Folder struct {
	Path    string
	cleaner *cleaner
}

// NewFolder makes a folder, and removes it and the other files when this process dies
// before Close. Main must have been called. It is not in XDG_RUNTIME_DIR, which goes
// with the user's last session, also under a command that runs on by nohup.
func NewFolder(others ...string) (*Folder, error) {
	path, err := os.MkdirTemp("", "kplan-hold-")
	if err != nil {
		return nil, err
	}
	all := []string{path}
	for _, other := range others {
		abs, err := filepath.Abs(other)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		all = append(all, abs)
	}
	g, err := watch(all)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting what cleans up: %w", err), os.RemoveAll(path))
	}
	return &Folder{path, g}, nil
}

// Close removes the folder and the other files.
func (f *Folder) Close() error {
	err := removeAll(f.cleaner.files)
	return errors.Join(err, f.cleaner.close())
}

func removeAll(files []string) error {
	var all []error
	for _, file := range files {
		all = append(all, os.RemoveAll(file))
	}
	return errors.Join(all...)
}
