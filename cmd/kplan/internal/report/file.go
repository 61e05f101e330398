package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/otlp"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// File is a report that is to be written, or sent.
type File struct {
	Kind Kind
	// Path is the file; "" when the report is sent To a collector.
	Path string
	To   *otlp.Endpoint
	// Pages is the folder for a page of each cluster of a fleet; "" when there are none.
	Pages string
}

// String returns the flag that asks for it.
func (f File) String() string {
	if f.To != nil {
		return fmt.Sprintf("--report %s=%s", f.Kind, f.To)
	}
	return fmt.Sprintf("--report %s=%s", f.Kind, f.Path)
}

// ParseFile reads a value of --report: KIND=FILE, otlp=URL, or otlp alone where the
// environment names a collector. The file's folder must exist and may be written to: to find
// that out once the run is over would be too late.
func ParseFile(flag string, getenv func(string) string) (File, error) {
	const form = "write --report kind=file, such as --report html=report.html"
	kind, path, ok := strings.Cut(flag, "=")
	if Kind(kind) == OTLP && (!ok || otlp.IsURL(path)) {
		return parseEndpoint(path, getenv)
	}
	if !ok || path == "" {
		return File{}, runner.WithHint(fmt.Errorf("--report %s names no file", flag), form)
	}
	if !slices.Contains(Kinds, Kind(kind)) {
		return File{}, runner.WithHint(fmt.Errorf("--report: there is no report kind %q, only %s", kind, strings.Join(words.Names(Kinds), ", ")), form)
	}
	f := File{Kind: Kind(kind), Path: path}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return f, fmt.Errorf("%s: there is no folder %s", f, filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return f, fmt.Errorf("%s: that is a folder", f)
	}
	if err := outfile.Check(path); err != nil {
		return f, runner.WithHint(fmt.Errorf("%s: %w", f, err), "name a file in another folder")
	}
	return f, nil
}

// parseEndpoint returns the report for the collector at an address, or for that of the
// environment.
func parseEndpoint(address string, getenv func(string) string) (File, error) {
	to, err := otlp.NewEndpoint(address, getenv)
	switch {
	case errors.Is(err, otlp.ErrNoEndpoint):
		return File{}, runner.WithHint(fmt.Errorf("--report otlp names no file, and %w", err), "write --report otlp=FILE, or --report otlp=http://HOST:4318")
	case err != nil:
		return File{}, fmt.Errorf("--report otlp: %w", err)
	}
	return File{Kind: OTLP, To: to}, nil
}

// Files follows a run and writes its reports when it is closed. It is a renderer as
// those of package ui.
type Files struct {
	Files []File
	Meta  Meta

	timeline timeline.Timeline
}

// Observe implements runner.Observer.
func (f *Files) Observe(e runner.Event) { f.timeline.Apply(e) }

// Close writes the reports, as far as anything is known of the run.
func (f *Files) Close() error {
	if f.timeline.Execution().State() == "" {
		return nil
	}
	var all error
	for _, file := range f.Files {
		if file.To != nil {
			continue
		}
		if err := f.write(file); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", file, err))
		}
	}
	return all
}

// write writes one report.
func (f *Files) write(file File) error {
	var b bytes.Buffer
	if file.Kind == OTLP && filepath.Ext(file.Path) != ".json" {
		trace, err := otlp.Protobuf(otlp.Build(&f.timeline, f.Meta.source()))
		if err != nil {
			return err
		}
		return outfile.Write(file.Path, trace)
	}
	if err := Write(&b, file.Kind, &f.timeline, f.Meta); err != nil {
		return err
	}
	if file.Kind == Prometheus { // node_exporter is another user
		return outfile.Publish(file.Path, b.Bytes())
	}
	return outfile.Write(file.Path, b.Bytes())
}

// Send sends the reports that go to collectors. It returns when they are taken, when they
// are not after all tries, or when ctx ends. A trace whose parent is not sampled is not sent.
func (f *Files) Send(ctx context.Context) error {
	if f.timeline.Execution().State() == "" {
		return nil
	}
	var all error
	for _, file := range f.Files {
		if file.To == nil {
			continue
		}
		if getenv := f.Meta.Getenv; getenv != nil {
			if parent := otlp.ParentOf(getenv); parent.Known() && !parent.Sampled() {
				continue
			}
		}
		if err := file.To.Send(ctx, otlp.Build(&f.timeline, f.Meta.source())); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", file, err))
		}
	}
	return all
}

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
	meta := Meta{Version: s.Version}
	for _, step := range s.timeline.Execution().Steps() {
		if meta.PlanFile = step.File; meta.PlanFile != "" {
			break
		}
	}
	summarize(s.File, s.Warnings, func(limit int) []byte { return MarkdownOf(&s.timeline, meta, limit) })
	return err
}

// summarize adds Markdown to the summary of a workflow's step, in a file to which others write
// too. That it cannot is a warning.
func summarize(file string, warnings io.Writer, markdown func(limit int) []byte) {
	if err := appendSummary(file, markdown); err != nil {
		message := words.Clean("GITHUB_STEP_SUMMARY: " + err.Error())
		// Who cannot be told that either cannot be helped.
		fmt.Fprintln(warnings, actions.Annotation{Level: actions.Warning, Title: "kplan: no summary", Message: message})
	}
}

func appendSummary(file string, markdown func(limit int) []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	before := ""
	if info.Size() > 0 {
		before = "\n\n" // whatever stands there ends
	}
	room := MarkdownLimit - info.Size() - int64(len(before))
	if room < leastSummary {
		return errors.New("what others wrote leaves no room in its 1 MiB")
	}
	_, err = f.WriteString(before + string(markdown(int(room))))
	return err
}
