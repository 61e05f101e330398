package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

// File is a report that is to be written.
type File struct {
	Kind Kind
	Path string
}

// String returns the flag that asks for it.
func (f File) String() string { return fmt.Sprintf("--report %s=%s", f.Kind, f.Path) }

// ParseFile reads a value of --report: KIND=FILE. The file's folder must exist and
// may be written to: to find that out once the run is over would be too late.
func ParseFile(flag string) (File, error) {
	const form = "write --report kind=file, such as --report html=report.html"
	kind, path, ok := strings.Cut(flag, "=")
	if !ok || path == "" {
		return File{}, runner.WithHint(fmt.Errorf("--report %s names no file", flag), form)
	}
	k, err := ParseKind(kind)
	if err != nil {
		return File{}, runner.WithHint(fmt.Errorf("--report: %w", err), form)
	}
	f := File{k, path}
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
		var b bytes.Buffer
		err := Write(&b, file.Kind, &f.timeline, f.Meta)
		if err == nil {
			err = outfile.Write(file.Path, b.Bytes())
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", file, err))
		}
	}
	return all
}
