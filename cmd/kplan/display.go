package main

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/rescue"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

// drawn gives the mode to show a run in: that of --progress, but not the display
// beside logs of libraries, which would tear it.
func (a *app) drawn(progress string) (ui.Mode, error) {
	m, err := a.mode(progress)
	if err != nil || m != ui.TTY || a.verbosity == 0 {
		return m, err
	}
	if progress == string(ui.TTY) {
		return m, &usageError{err: errors.New("--progress tty and -v both need the terminal"), hint: "leave one of them out"}
	}
	return ui.Plain, nil
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

// shows makes what shows a run on stderr.
func (o *runOptions) shows(ctx context.Context, m ui.Mode, r *runner.Runner) ui.Renderer {
	if m == ui.TTY {
		return o.display(ctx, r)
	}
	return o.renderer(m)
}
