package plan

import (
	"errors"
	"fmt"
	"github.com/kplan-dev/kplan/plan/document"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsLocal tells whether the chart is a folder or archive on disk.
func (h Helm) IsLocal() bool {
	return h.Chart == "." || h.Chart == ".." || strings.HasPrefix(h.Chart, "./") || strings.HasPrefix(h.Chart, "../") || filepath.IsAbs(h.Chart)
}

// IsOCI tells whether the chart is in an OCI registry.
func (h Helm) IsOCI() bool { return strings.HasPrefix(h.Chart, "oci://") }

// OCITag takes the tag off the chart's reference, as in oci://host/chart:1.2.3; ""
// when there is none, or a digest.
func (h Helm) OCITag() (chart, tag string) {
	last := strings.LastIndexByte(h.Chart, '/')
	if !h.IsOCI() || strings.Contains(h.Chart, "@") {
		return h.Chart, ""
	}
	i := strings.IndexByte(h.Chart[last+1:], ':')
	if i < 0 || last < len("oci://") { // what follows a colon of the host is a port
		return h.Chart, ""
	}
	return h.Chart[:last+1+i], h.Chart[last+2+i:]
}

// Abs gives the absolute path of a file that the plan names.
func (p *Plan) Abs(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(p.Dir, name)
}

// In gives the plan as one of its steps sees files: paths are relative to the
// folder of the plan that the step was read from, which may be an included one.
func (p *Plan) In(s Step) *Plan {
	if s.Dir == "" || s.Dir == p.Dir {
		return p
	}
	there := *p
	there.Dir = s.Dir
	return &there
}

// ApplyFiles gives the absolute paths of an apply step's files in the order of
// the step, globs expanded and sorted, each file once. It is an error when one
// does not exist, when a glob matches nothing, or when one is a folder.
func (p *Plan) ApplyFiles(a Apply) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	for _, name := range a.Files {
		found, err := p.expandFile(name)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", name, err)
		}
		for _, f := range found {
			if !seen[f] {
				seen[f] = true
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// expandFile gives the files that a path or glob means. A file whose name looks
// like a glob is taken as the file.
func (p *Plan) expandFile(name string) ([]string, error) {
	full := p.Abs(name)
	info, err := os.Stat(full)
	switch {
	case err == nil && info.IsDir():
		return nil, errIsFolder
	case err == nil:
		return []string{full}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(name, `*?[`):
		return nil, statError(err)
	}
	if strings.Contains(name, "**") {
		return nil, errors.New("** is not understood in a glob")
	}
	// Only the plan's own part is a pattern, not the folder that it happens to be in.
	var found []string
	if filepath.IsAbs(name) {
		found, err = filepath.Glob(full)
	} else {
		found, err = globIn(p.Dir, filepath.Clean(name))
	}
	if err != nil {
		return nil, errors.New("the glob is malformed")
	}
	found = slices.DeleteFunc(found, func(f string) bool {
		info, err := os.Stat(f)
		return err != nil || info.IsDir()
	})
	if len(found) == 0 {
		return nil, errors.New("the glob matches no file")
	}
	slices.Sort(found)
	return found, nil
}

// globIn matches a relative pattern, which may start with ../, below dir.
func globIn(dir, pattern string) ([]string, error) {
	for strings.HasPrefix(pattern, "../") {
		dir, pattern = filepath.Dir(dir), strings.TrimPrefix(pattern, "../")
	}
	found, err := fs.Glob(os.DirFS(dir), filepath.ToSlash(pattern))
	for i, f := range found {
		found[i] = filepath.Join(dir, f)
	}
	return found, err
}

var (
	errIsFolder = errors.New("is a folder")
	errNoFile   = errors.New("there is no such file")
)

// cannotUse says in one line what is wrong with a path.
func cannotUse(what, name string, err error) string {
	if errors.Is(err, errNoFile) {
		return fmt.Sprintf("there is no %s %q", what, document.Cut(name, 120))
	}
	return fmt.Sprintf("the %s %q cannot be used: %v", what, document.Cut(name, 120), err)
}

// statError says in few words why a path cannot be used.
func statError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFile
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// checkFiles looks whether the files that the plan names are there. The folder
// of the plan is no fence: a plan is as trusted as the one who runs it.
func (c *checker) checkFiles() {
	for _, e := range c.decls {
		for _, it := range e.instances {
			c.checkStepFiles(it.step, e.at)
		}
	}
}

func (c *checker) checkStepFiles(s Step, at document.Path) {
	if s.Helm != nil {
		c.checkChart(*s.Helm, at.Key("helm").Key("chart"))
		for j, f := range s.Helm.ValuesFiles {
			c.checkFile(f, at.Key("helm").Key("values_files").Index(j))
		}
	}
	if s.Apply != nil {
		c.checkGlobs(s.Apply.Files, at.Key("apply").Key("files"))
	}
	if s.Webhook != nil {
		c.checkWebhookFiles(*s.Webhook, at.Key("webhook"))
	}
}

func (c *checker) checkWebhookFiles(w Webhook, at document.Path) {
	c.checkGlobs(w.Files, at.Key("files"))
	if w.Canary == nil {
		return
	}
	canary := at.Key("canary")
	c.checkGlobs(w.Canary.Accept, canary.Key("accept"))
	c.checkGlobs(w.Canary.Deny, canary.Key("deny"))
	for j, m := range w.Canary.Mutate {
		c.checkGlob(m.File, canary.Key("mutate").Index(j).Key("file"))
	}
}

func (c *checker) checkGlobs(names []string, at document.Path) {
	for j, name := range names {
		c.checkGlob(name, at.Index(j))
	}
}

func (c *checker) checkFile(name string, at document.Path) {
	if name == "" {
		return
	}
	info, err := os.Stat(c.plan.Abs(name))
	switch {
	case err != nil:
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: c.pathHint(name)}, "%s", cannotUse("file", name, statError(err)))
	case info.IsDir():
		c.Report(document.Fault{Code: document.CodeFile, At: at}, "%q is a folder, not a file", name)
	}
}

func (c *checker) checkGlob(name string, at document.Path) {
	if name == "" {
		return
	}
	switch _, err := c.plan.expandFile(name); {
	case errors.Is(err, errIsFolder):
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: "write " + filepath.ToSlash(filepath.Join(name, "*.yaml"))}, "%q is a folder, not a file", name)
	case err != nil:
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: c.pathHint(name)}, "%s", cannotUse("file", name, err))
	}
}

func (c *checker) checkChart(h Helm, at document.Path) {
	if !h.IsLocal() {
		return
	}
	full := c.plan.Abs(h.Chart)
	info, err := os.Stat(full)
	switch {
	case err != nil:
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: c.pathHint(h.Chart)}, "%s", cannotUse("chart", h.Chart, statError(err)))
	case info.IsDir():
		if _, err := os.Stat(filepath.Join(full, "Chart.yaml")); err != nil {
			c.Report(document.Fault{Code: document.CodeFile, At: at}, "the folder %q is no chart: it has no Chart.yaml", h.Chart)
		}
	case !strings.HasSuffix(h.Chart, ".tgz") && !strings.HasSuffix(h.Chart, ".tar.gz"):
		c.Report(document.Fault{Code: document.CodeFile, At: at}, "the file %q is no chart: its name does not end in .tgz", h.Chart)
	}
}

// pathHint says where a relative path was looked for, or a file that is near.
func (c *checker) pathHint(name string) string {
	full := c.plan.Abs(name)
	entries, err := os.ReadDir(filepath.Dir(full))
	if err == nil && len(entries) <= 1000 && !strings.ContainsAny(name, "*?[") {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if near := c.nearest(filepath.Base(full), names); near != "" {
			return fmt.Sprintf("did you mean %q?", strings.TrimSuffix(name, filepath.Base(name))+near)
		}
	}
	if filepath.IsAbs(name) {
		return ""
	}
	return "paths are relative to the folder of the plan"
}
