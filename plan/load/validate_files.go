package load

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/internal/files"
)

// cannotUse says in one line what is wrong with a path.
func cannotUse(what, name string, err error) string {
	if errors.Is(err, files.ErrMissing) {
		return fmt.Sprintf("there is no %s %q", what, document.Cut(name, 120))
	}
	return fmt.Sprintf("the %s %q cannot be used: %v", what, document.Cut(name, 120), err)
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

func (c *checker) checkStepFiles(s plan.Step, at document.Path) {
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

func (c *checker) checkWebhookFiles(w plan.Webhook, at document.Path) {
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
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: c.pathHint(name)}, "%s", cannotUse("file", name, files.Reason(err)))
	case info.IsDir():
		c.Report(document.Fault{Code: document.CodeFile, At: at}, "%q is a folder, not a file", name)
	}
}

func (c *checker) checkGlob(name string, at document.Path) {
	if name == "" {
		return
	}
	switch _, err := files.Expand(c.plan.Dir, name); {
	case errors.Is(err, files.ErrFolder):
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: "write " + filepath.ToSlash(filepath.Join(name, "*.yaml"))}, "%q is a folder, not a file", name)
	case err != nil:
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: c.pathHint(name)}, "%s", cannotUse("file", name, err))
	}
}

func (c *checker) checkChart(h plan.Helm, at document.Path) {
	if !h.IsLocal() {
		return
	}
	full := c.plan.Abs(h.Chart)
	info, err := os.Stat(full)
	switch {
	case err != nil:
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: c.pathHint(h.Chart)}, "%s", cannotUse("chart", h.Chart, files.Reason(err)))
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
		if near := c.near.Find(filepath.Base(full), names); near != "" {
			return fmt.Sprintf("did you mean %q?", strings.TrimSuffix(name, filepath.Base(name))+near)
		}
	}
	if filepath.IsAbs(name) {
		return ""
	}
	return "paths are relative to the folder of the plan"
}
