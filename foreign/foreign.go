// Package foreign turns what other tools install by into plans: this package has what
// all of them share, and a package below it for each tool reads its files.
//
// A source reads its files as a Value, takes from it what a plan can say, and puts that
// into a Plan. Whatever it has not taken becomes a warning with file, line and field, so
// that nothing is lost in silence. Result.Text writes the plan and reads it again: what
// is returned is one that package load takes.
//
// It asks no cluster and no registry, runs no program and renders no template. It reads
// no file but by Input.Read, builds no overlay but by Input.Build, and writes none.
package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
)

// File is a file with its text.
type File struct {
	// Name is its path, with / between its parts.
	Name string
	Data []byte
}

// Input is what a plan is made of.
type Input struct {
	// Files are read in their order, as if they were one.
	Files []File
	// Dir is the folder of the plan that is made. It and the names of Files are
	// relative to one and the same folder, or absolute.
	Dir string
	// Root is the absolute path of the folder that they are relative to, if they are; with
	// "" absolute paths stay so in the plan.
	Root string
	// Name is the plan's name; "" lets the source find one.
	Name string
	// Read returns the text of another file, one that a file names. Its error is
	// fs.ErrNotExist for one that is not there.
	Read func(name string) ([]byte, error)
	// Build returns the objects that kustomize makes of a folder; nil where nobody builds
	// any.
	Build func(dir string) ([]byte, error)
}

// Beside is the path of a file that another one names, in the terms of Input.
func Beside(file, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(path.Dir(file), name)
}

// FromPlan is the path of a file as the plan names it: relative to its folder, and
// beginning with ./ or ../.
func (in Input) FromPlan(name string) string {
	if path.IsAbs(name) && !path.IsAbs(in.Dir) {
		if in.Root == "" {
			return path.Clean(name)
		}
		in.Dir = path.Join(in.Root, in.Dir)
	}
	from, to := parts(in.Dir), parts(name)
	for len(from) > 0 && len(to) > 1 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	if slices.Contains(from, "..") || path.IsAbs(in.Dir) != path.IsAbs(name) {
		return path.Clean(name) // nobody knows how that folder is called from within
	}
	if len(from) == 0 {
		return "./" + strings.Join(to, "/")
	}
	return strings.Repeat("../", len(from)) + strings.Join(to, "/")
}

// parts are those of a path.
func parts(name string) []string {
	name = strings.Trim(path.Clean(name), "/")
	if name == "." || name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// Result is what was made.
type Result struct {
	Plan *Plan
	// Files are written beside the plan. Their names are relative to its folder.
	Files []File
	Report
}

// The rules of findings, which do not change: what became of something that was read.
const (
	// Lost: it is in the files and not in the plan.
	Lost = "not-imported"
	// Changed: it is in the plan, and does not mean quite the same there.
	Changed = "imported-otherwise"
	// Secret: it looks like a secret, and a variable stands for it.
	Secret = "secret-not-copied"
)

// Rules returns what findings can be of.
func Rules() []finding.Rule {
	return []finding.Rule{
		{ID: Lost, Severity: finding.Warning, Summary: "something is not in the plan"},
		{ID: Changed, Severity: finding.Note, Summary: "something means not quite the same in the plan"},
		{ID: Secret, Severity: finding.Warning, Summary: "a value that looks like a secret was not copied"},
	}
}

// Report is what is to be known of a plan that was made.
type Report struct {
	// Findings say what is lost or otherwise, in the order of the files and their lines.
	Findings []finding.Finding
	// First says what to do before the plan is run, in that order.
	First []string
}

// Add adds a finding unless it is known already: an alias brings one value to many places.
func (r *Report) Add(f finding.Finding) {
	f.Message, f.Hint, f.Path = plain(f.Message), plain(f.Hint), plain(f.Path)
	if !slices.ContainsFunc(r.Findings, func(g finding.Finding) bool {
		return g.Pos == f.Pos && g.Rule == f.Rule && g.Message == f.Message
	}) {
		r.Findings = append(r.Findings, f)
	}
}

// plain makes text fit for a message.
func plain(s string) string { return document.Clean(written(s)) }

// Lost says what of a place is not in the plan, and what to do about it.
func (r *Report) Lost(at document.Place, hint, format string, args ...any) {
	r.Add(finding.Finding{Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Severity: finding.Warning, Rule: Lost, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Changed says what of a place means not quite the same in the plan.
func (r *Report) Changed(at document.Place, hint, format string, args ...any) {
	r.Add(finding.Finding{Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Severity: finding.Note, Rule: Changed, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Before adds something to do before the plan is run, unless it is said already.
func (r *Report) Before(format string, args ...any) {
	if text := plain(fmt.Sprintf(format, args...)); !slices.Contains(r.First, text) {
		r.First = append(r.First, text)
	}
}

// Sort puts the findings in the order of the files that were given, and of their lines.
func (r *Report) Sort(files []File) {
	order := map[string]int{}
	for i, f := range files {
		order[f.Name] = i - len(files)
	}
	finding.Sort(r.Findings, order)
}

// Filled returns an error with all that was told when the plan has no step.
func (r *Result) Filled(none string) error {
	if len(r.Plan.Steps) > 0 {
		return nil
	}
	err := errors.New(none)
	for _, f := range r.Findings {
		err = fmt.Errorf("%w\n%s", err, f)
	}
	return err
}

// Text writes the plan and reads it again. The error is a document.Diagnostics when it
// is no valid plan; the text is returned all the same. Whether the files are there that
// the plan names is not looked at.
func (r *Result) Text(name string) ([]byte, error) {
	var b bytes.Buffer
	if err := r.Plan.write(&b); err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	_, err := load.Parse(name, b.Bytes(), load.Options{Unset: true})
	return b.Bytes(), err
}
