package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/rescue"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
)

// addProgress registers --progress.
func addProgress(cmd *cobra.Command, progress *string) {
	names := words.Names(ui.Modes)
	cmd.Flags().StringVar(progress, "progress", string(ui.Auto), "how to show progress on stderr: "+document.OrList(names))
	complete(cmd, "progress", names...)
}

// addLogs registers --logs.
func (a *app) addLogs(cmd *cobra.Command) {
	a.logs = ui.LogsTrouble
	cmd.Flags().Var(&a.logs, "logs",
		"which logs of pods to show: none, trouble (of what does not move, and of what failed) or all; --record and reports keep all")
	complete(cmd, "logs", ui.LogsNames...)
}

// mode reads --progress, and chooses where it says auto: not the display beside logs
// of libraries, which would tear it.
func (a *app) mode(progress string) (ui.Mode, error) {
	m, err := ui.ParseMode(progress)
	if err != nil {
		return m, &usageError{err: err}
	}
	m, err = ui.Environment{
		Stdin: tty.Is(a.stdin), Stderr: tty.Is(a.stderr),
		Term: os.Getenv("TERM"), CI: os.Getenv("CI"), Actions: os.Getenv("GITHUB_ACTIONS"),
	}.Choose(m)
	switch {
	case errors.Is(err, ui.ErrNoTerminal):
		return m, &usageError{err: err, hint: "leave --progress tty out: auto picks what fits"}
	case err != nil || m != ui.TTY || a.verbosity == 0:
		return m, err
	case progress == string(ui.TTY):
		return m, &usageError{err: errors.New("--progress tty and -v both need the terminal"), hint: "leave one of them out"}
	}
	return ui.Plain, nil
}

// renderer makes what shows a run on stderr; for GitHub also what adds it to the
// step's summary.
func (a *app) renderer(m ui.Mode) ui.Renderer {
	r := ui.New(a.stderr, m, a.options(a.stderr))
	if file := os.Getenv("GITHUB_STEP_SUMMARY"); m == ui.GitHub && file != "" {
		return &report.Summarized{Renderer: r, File: file, Warnings: a.stderr, Version: readBuild().Version}
	}
	return r
}

// options say how this app draws on w.
func (a *app) options(w io.Writer) ui.Options {
	return ui.Options{
		Colour:  a.colour(w),
		Actions: os.Getenv("GITHUB_ACTIONS") == "true",
		Root:    os.Getenv("GITHUB_WORKSPACE"),
		Logs:    a.logs,
		Called:  a.called,
	}
}

// terminal says where the display is, and how it looks. The mode TTY was chosen,
// so both streams are terminals. What it gives is to be used: a process waits for the
// end of the display.
// Hint is for those whose kplan was killed meanwhile.
func (a *app) terminal(hint string) tui.Config {
	in, _ := a.stdin.(*os.File)
	out, _ := a.stderr.(*os.File)
	return tui.Config{
		Options: tui.Options{Colour: a.colour(out), Unicode: tty.Unicode(), Version: readBuild().Version, Logs: a.logs},
		In:      in, Out: out,
		Standby:  ui.NewStandby(out, a.options(out)),
		Returned: watchTerminal(in, out, hint),
	}
}

// watchTerminal lets a process of its own give the terminal back, should this one die
// before the function that it returns is called. Where there can be none the display
// goes without.
func watchTerminal(in, out *os.File, hint string) func() {
	w, err := rescue.Watch(in, out, hint)
	if err != nil {
		return nil
	}
	return sync.OnceFunc(func() { _ = w.Close() }) // the process dies with this one at the latest
}

// display opens the display of a run, and lets its keys give orders to r.
func (o *runOptions) display(ctx context.Context, r *runner.Runner) ui.Renderer {
	c := o.terminal("what it sent stays in the cluster: run the plan again to go on")
	orders := make(chan runner.Order, 16)
	r.Orders, r.Linger = orders, o.stay
	c.Orders, c.Stay = true, o.stay
	c.Command, c.Stop, c.Aborted = orders, o.interrupt, r.Abort
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		if by := (*runner.Interrupted)(nil); errors.As(context.Cause(ctx), &by) {
			close(stopped)
		}
	})
	c.Stopped = stopped
	return tui.Open(c)
}
