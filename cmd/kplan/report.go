package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// reportFile is a report that is to be written.
type reportFile struct {
	kind report.Kind
	path string
}

func (r reportFile) String() string { return fmt.Sprintf("--report %s=%s", r.kind, r.path) }

// addReports registers --report.
func addReports(cmd *cobra.Command) *[]string {
	var flags []string
	cmd.Flags().StringArrayVar(&flags, "report", nil, "write a report of the run when it is over, as `kind=file`: html, junit, markdown or json; may be repeated")
	completeBy(cmd, "report", reportKinds)
	return &flags
}

// reportKinds completes the kinds of reports, and a name for the file.
func reportKinds(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	kind, _, hasFile := strings.Cut(typed, "=")
	for _, k := range report.Kinds {
		switch {
		case !hasFile:
			offers = append(offers, string(k)+"=")
		case string(k) == kind:
			return []string{kind + "=report" + k.Ext()}, cobra.ShellCompDirectiveDefault
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// parseReports reads the values of --report. Every report needs a file of its
// own, in a folder that exists and may be written to: to find that out once the run
// is over would be too late.
func parseReports(flags []string) ([]reportFile, error) {
	var all []reportFile
	for _, flag := range flags {
		kind, path, ok := strings.Cut(flag, "=")
		if !ok || path == "" {
			return nil, &usageError{err: fmt.Errorf("--report %s names no file", flag), hint: "write --report kind=file, such as --report html=report.html"}
		}
		k, err := report.ParseKind(kind)
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("--report: %w", err), hint: "write --report kind=file, such as --report html=report.html"}
		}
		next := reportFile{k, path}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return nil, &usageError{err: fmt.Errorf("%s: there is no folder %s", next, filepath.Dir(path))}
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil, &usageError{err: fmt.Errorf("%s: that is a folder", next)}
		}
		for _, other := range all {
			if sameFile(path, other.path) {
				return nil, &usageError{err: fmt.Errorf("%s and %s are the same file", other, next), hint: "name another file"}
			}
		}
		if err := writable(path); err != nil {
			return nil, &usageError{err: fmt.Errorf("%s: %w", next, err), hint: "name a file in another folder"}
		}
		all = append(all, next)
	}
	return all, nil
}

// spareReports refuses reports over a file that is read, or written to as well.
func spareReports(reports []reportFile, reads []plan.Read) error {
	for _, r := range reports {
		if err := spareReads(r.String(), r.path, reads); err != nil {
			return err
		}
	}
	return nil
}

// spareReads refuses to write a flag's file over one that is read.
func spareReads(flag, path string, reads []plan.Read) error {
	for _, r := range reads {
		if r.Path != "" && sameFile(path, r.Path) {
			return &usageError{err: fmt.Errorf("%s would overwrite %s", flag, r.What), hint: "name another file"}
		}
	}
	return nil
}

// sameFile tells whether two paths lead to one file, which need not exist.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	return (errX == nil) == (errY == nil) && resolved(a) == resolved(b)
}

// resolved is an absolute path whose folder has no links in it.
func resolved(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = filepath.Clean(path)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}

// reporter follows a run and writes its reports when it is closed.
type reporter struct {
	timeline timeline.Timeline
	files    []reportFile
	meta     report.Meta
}

var _ ui.Renderer = (*reporter)(nil)

// Observe implements runner.Observer.
func (r *reporter) Observe(e runner.Event) { r.timeline.Apply(e) }

// Close implements ui.Renderer: it writes the reports, as far as anything is
// known of the run.
func (r *reporter) Close() error {
	if r.timeline.Execution().State() == "" {
		return nil
	}
	var all error
	for _, f := range r.files {
		if err := r.write(f); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", f, err))
		}
	}
	return all
}

func (r *reporter) write(f reportFile) error {
	var b bytes.Buffer
	if err := report.Write(&b, f.kind, &r.timeline, r.meta); err != nil {
		return err
	}
	return writeWhole(f.path, b.Bytes())
}

// again writes the reports of a recorded run.
func (r *reporter) again(events []runner.Event) error {
	for _, e := range events {
		r.Observe(e)
	}
	return r.Close()
}

// writeWhole writes a file so that nobody sees half of it: whoever stops kplan
// meanwhile leaves the file as it was. It is for the user alone, for it tells what
// is in the cluster. What is no regular file, such as a pipe, is written to.
func writeWhole(path string, b []byte) error {
	path, regular := target(path)
	if !regular {
		return os.WriteFile(path, b, 0)
	}
	tmp, err := beside(path)
	if err != nil {
		return err
	}
	if _, err := tmp.Write(b); err != nil {
		return errors.Join(err, discard(tmp))
	}
	if err := tmp.Close(); err != nil {
		return errors.Join(err, discard(tmp))
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return errors.Join(err, discard(tmp))
	}
	return nil
}

// writable is an error if no file can be made where writeWhole makes one.
func writable(path string) error {
	path, regular := target(path)
	if !regular { // to open a pipe would wait for its reader
		return nil
	}
	tmp, err := beside(path)
	if at := (*fs.PathError)(nil); errors.As(err, &at) { // nobody knows the file that it names
		err = at.Err
	}
	if err != nil {
		return fmt.Errorf("folder %s cannot be written to: %w", filepath.Dir(path), err)
	}
	return discard(tmp)
}

// target is where a path leads, for a link stays one, and whether that is a regular
// file, or none yet.
func target(path string) (string, bool) {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	info, err := os.Stat(path)
	return path, err != nil || info.Mode().IsRegular()
}

// beside makes a file next to one that it is to replace. Its mode is 0600.
func beside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
}

// discard closes a file, if it is open, and removes it.
func discard(f *os.File) error {
	err := f.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}
