package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// leastSummary is how much room a summary takes to say anything, in bytes.
const leastSummary = 8 << 10

// summarized is a renderer that adds the run, when it is closed, to the summary
// of a workflow's step. Others may write to that file too. A summary that cannot
// be written does not fail the run: that is a warning.
type summarized struct {
	ui.Renderer
	file string
	// out is where warnings go.
	out io.Writer

	timeline timeline.Timeline
}

// Observe implements runner.Observer.
func (s *summarized) Observe(e runner.Event) {
	s.timeline.Apply(e)
	s.Renderer.Observe(e)
}

// Close implements ui.Renderer.
func (s *summarized) Close() error {
	err := s.Renderer.Close()
	if s.timeline.Execution().State() == "" {
		return err
	}
	if e := s.write(); e != nil {
		warning := actions.Annotation{
			Level: actions.Warning, Title: "kplan: no summary", Message: words.Clean(e.Error()),
		}
		fmt.Fprintln(s.out, warning) // who cannot be told that either cannot be helped
	}
	return err
}

func (s *summarized) write() error {
	f, err := os.OpenFile(s.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	before := ""
	if info.Size() > 0 {
		before = "\n\n" // whatever stands there ends
	}
	room := report.MarkdownLimit - info.Size() - int64(len(before))
	if room < leastSummary {
		return errors.New("GITHUB_STEP_SUMMARY: what others wrote leaves no room in its 1 MiB")
	}
	meta := report.Meta{Version: readBuild().Version}
	for _, step := range s.timeline.Execution().Steps() {
		if meta.PlanFile = step.File; meta.PlanFile != "" {
			break
		}
	}
	if _, err := f.WriteString(before + string(report.MarkdownOf(&s.timeline, meta, int(room)))); err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	return nil
}
