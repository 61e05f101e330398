package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
)

// addProgress registers --progress.
func addProgress(cmd *cobra.Command, progress *string) {
	names := ui.ModeNames()
	last := len(names) - 1
	cmd.Flags().StringVar(progress, "progress", string(ui.Auto),
		"how to show progress on stderr: "+strings.Join(names[:last], ", ")+" or "+names[last])
	complete(cmd, "progress", names...)
}

// addLogs registers --logs.
func (a *app) addLogs(cmd *cobra.Command) {
	a.logs = ui.LogsTrouble
	cmd.Flags().Var(&logsFlag{&a.logs}, "logs",
		"which logs of pods to show: none, trouble (of what does not move, and of what failed) or all; --record and reports keep all")
	complete(cmd, "logs", ui.LogsNames...)
}

// logsFlag is the value of --logs.
type logsFlag struct{ to *ui.Logs }

func (f *logsFlag) String() string {
	if f.to == nil { // cobra asks an empty one
		return ""
	}
	return string(*f.to)
}

func (f *logsFlag) Type() string { return "string" }

func (f *logsFlag) Set(s string) (err error) {
	logs, err := ui.ParseLogs(s)
	if err == nil {
		*f.to = logs
	}
	return err
}

// mode reads --progress, and chooses where it says auto.
func (a *app) mode(progress string) (ui.Mode, error) {
	m, err := ui.ParseMode(progress)
	if err != nil {
		return m, &usageError{err: err}
	}
	m, err = ui.Environment{
		Stdin: tty.Is(a.stdin), Stderr: tty.Is(a.stderr),
		Term: os.Getenv("TERM"), CI: os.Getenv("CI"), Actions: os.Getenv("GITHUB_ACTIONS"),
	}.Choose(m)
	if errors.Is(err, ui.ErrNoTerminal) {
		err = &usageError{err: err, hint: "leave --progress tty out: auto picks what fits"}
	}
	return m, err
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
	}
}
