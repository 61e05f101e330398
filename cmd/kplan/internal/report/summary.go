package report

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// leastSummary is how much room a summary takes to say anything, in bytes.
const leastSummary = 8 << 10

// Summarized is a renderer that adds the run, when it is closed, to the summary
// of a workflow's step. Others may write to that file too. A summary that cannot
// be written does not fail the run: that is a warning.
type Summarized struct {
	ui.Renderer
	// File is that of the summary.
	File string
	// Warnings is where it is told that the summary cannot be written.
	Warnings io.Writer
	// Version is that of kplan.
	Version string

	timeline timeline.Timeline
}

// Observe implements runner.Observer.
func (s *Summarized) Observe(e runner.Event) {
	s.timeline.Apply(e)
	s.Renderer.Observe(e)
}

// Close implements ui.Renderer.
func (s *Summarized) Close() error {
	err := s.Renderer.Close()
	if s.timeline.Execution().State() == "" {
		return err
	}
	if e := s.write(); e != nil {
		warning := actions.Annotation{
			Level: actions.Warning, Title: "kplan: no summary", Message: words.Clean(e.Error()),
		}
		fmt.Fprintln(s.Warnings, warning) // who cannot be told that either cannot be helped
	}
	return err
}

func (s *Summarized) write() error {
	f, err := os.OpenFile(s.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
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
	room := MarkdownLimit - info.Size() - int64(len(before))
	if room < leastSummary {
		return errors.New("GITHUB_STEP_SUMMARY: what others wrote leaves no room in its 1 MiB")
	}
	meta := Meta{Version: s.Version}
	for _, step := range s.timeline.Execution().Steps() {
		if meta.PlanFile = step.File; meta.PlanFile != "" {
			break
		}
	}
	if _, err := f.WriteString(before + string(MarkdownOf(&s.timeline, meta, int(room)))); err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	return nil
}
