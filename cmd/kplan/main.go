// Command kplan runs install plans against Kubernetes clusters.
//
// This package reads flags, wires the other packages and turns errors into
// exit codes; it does no work of its own.
package main

import (
	"cmp"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/child"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/startup"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/rescue"
	"github.com/kplan-dev/kplan/runner"
)

func main() {
	startup.Done()
	rescue.Main()
	child.Main()
	// A reader of stdout or stderr that went away must not kill a run that is
	// half way: writing fails instead. Notify rather than Ignore, for the latter
	// would be inherited by credential plugins.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(execute(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// execute runs the command line args, whose first is the program's name, and
// gives the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(args[0], stdin, stdout, stderr)
	defer a.close()
	root := newRoot(a)
	root.SetArgs(args[1:])
	cmd, err := root.ExecuteC()
	if err != nil && !a.started {
		err = &usageError{err: err, hint: cmp.Or(runner.HintOf(err), "see '"+cmd.CommandPath()+" --help'")}
	}
	return a.exit(err)
}
