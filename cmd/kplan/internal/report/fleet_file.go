package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// ParseFleetFile reads a value of --report for a fleet: KIND=FILE, or html=FOLDER for a page of
// the fleet and one for each cluster. What is no folder yet is one when its name has no
// extension, or ends with a slash.
func ParseFleetFile(flag string) (File, error) {
	kind, path, ok := strings.Cut(flag, "=")
	if ok && !slices.Contains(FleetKinds, Kind(kind)) {
		return File{}, runner.WithHint(fmt.Errorf("--report: there is no report kind %q of a fleet, only %s", kind, strings.Join(words.Names(FleetKinds), ", ")),
			"write --report kind=file, such as --report html=fleet.html, or --report html=folder for a page of each cluster too")
	}
	if Kind(kind) == HTML && path != "" && isFolder(path) {
		f := File{Kind: HTML, Path: filepath.Join(path, "index.html"), Pages: filepath.Join(path, "clusters")}
		if err := os.MkdirAll(f.Pages, 0o700); err != nil {
			return f, fmt.Errorf("%s: %w", f, err)
		}
		return f, outfile.Check(f.Path)
	}
	return ParseFile(flag, func(string) string { return "" })
}

func isFolder(path string) bool {
	if info, err := os.Stat(path); err == nil {
		return info.IsDir()
	}
	return strings.HasSuffix(path, "/") || filepath.Ext(path) == ""
}

// FleetFiles follows a fleet's run and writes its reports when it is closed. It is a renderer
// as those of package fleetview.
type FleetFiles struct {
	Files []File
	Meta  Meta
	// Events returns what happened in a cluster's own run, see Fleet.
	Events func(cluster string) ([]runner.Event, error)

	x fleet.Execution
}

// Observe implements fleetview.Renderer.
func (f *FleetFiles) Observe(e fleet.Event) { f.x.Apply(e) }

// Close writes the reports, as far as anything is known of the run.
func (f *FleetFiles) Close() error {
	if f.x.State == "" {
		return nil
	}
	var all error
	for _, file := range f.Files {
		if err := f.write(file); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", file, err))
		}
	}
	return all
}

func (f *FleetFiles) write(file File) error {
	from := &Fleet{Execution: &f.x, Meta: f.Meta, Events: f.Events}
	var b bytes.Buffer
	if file.Pages == "" {
		if err := WriteFleet(&b, file.Kind, from); err != nil {
			return err
		}
		return outfile.Write(file.Path, b.Bytes())
	}
	pages, err := from.writePages(file.Pages)
	if err != nil {
		return err
	}
	if err := writeFleetHTML(&b, from, pages); err != nil {
		return err
	}
	return outfile.Write(file.Path, b.Bytes())
}

// writePages writes the page of each cluster of whose own run something is known into a
// folder, and returns their addresses from beside it.
func (f *Fleet) writePages(dir string) (map[string]string, error) {
	pages, taken := map[string]string{}, map[string]bool{}
	for _, c := range f.Clusters {
		t, err := f.timeline(c.Name)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue
		}
		var b bytes.Buffer
		meta := f.Meta
		meta.Fleet, meta.Cluster = f.First.Fleet, c.Name
		if err := Write(&b, HTML, t, meta); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		name := pageName(c.Name, taken)
		if err := outfile.Write(filepath.Join(dir, name), b.Bytes()); err != nil {
			return nil, err
		}
		pages[c.Name] = (&url.URL{Path: filepath.Base(dir) + "/" + name}).String()
	}
	return pages, nil
}

// pageName is the name of the file of a cluster's page: prod-east-1.html for prod/east-1. No
// two clusters have one, also where letters are the same but for their case.
func pageName(cluster string, taken map[string]bool) string {
	safe := strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, cluster)
	safe = safe[:min(len(safe), 200)]
	name := safe
	for n := 2; taken[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s~%d", safe, n)
	}
	taken[strings.ToLower(name)] = true
	return name + ".html"
}

// FleetSummarized is Summarized for the run of a fleet.
type FleetSummarized struct {
	fleetview.Renderer
	// File is that of the summary.
	File string
	// Warnings is where it is told that the summary cannot be written.
	Warnings io.Writer
	// Version is that of kplan.
	Version string

	x fleet.Execution
}

// Observe implements fleetview.Renderer.
func (s *FleetSummarized) Observe(e fleet.Event) {
	s.x.Apply(e)
	s.Renderer.Observe(e)
}

// Close implements fleetview.Renderer.
func (s *FleetSummarized) Close() error {
	err := s.Renderer.Close()
	if s.x.State == "" {
		return err
	}
	summarize(s.File, s.Warnings, func(limit int) []byte {
		return FleetMarkdown(&Fleet{Execution: &s.x, Meta: Meta{Version: s.Version}}, limit)
	})
	return err
}
