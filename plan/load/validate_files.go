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

// files looks whether the files that the plan names are there. The folder
// of the plan is no fence: a plan is as trusted as the one who runs it.
func (v validator) files() {
	for _, e := range v.decls {
		for _, it := range e.instances {
			v.checkStepFiles(it.step, e.at)
		}
	}
}

func (v validator) checkStepFiles(s plan.Step, at path) {
	if s.Helm != nil {
		v.checkChart(*s.Helm, at.Key("helm").Key("chart"))
		for j, f := range s.Helm.ValuesFiles {
			v.checkFile(f, at.Key("helm").Key("values_files").Index(j))
		}
	}
	if s.Apply != nil {
		v.checkGlobs(s.Apply.Files, at.Key("apply").Key("files"))
	}
	if s.Webhook != nil {
		v.checkWebhookFiles(*s.Webhook, at.Key("webhook"))
	}
}

func (v validator) checkWebhookFiles(w plan.Webhook, at path) {
	v.checkGlobs(w.Files, at.Key("files"))
	if w.Canary == nil {
		return
	}
	canary := at.Key("canary")
	v.checkGlobs(w.Canary.Accept, canary.Key("accept"))
	v.checkGlobs(w.Canary.Deny, canary.Key("deny"))
	for j, m := range w.Canary.Mutate {
		v.checkGlob(m.File, canary.Key("mutate").Index(j).Key("file"))
	}
}

func (v validator) checkGlobs(names []string, at path) {
	for j, name := range names {
		v.checkGlob(name, at.Index(j))
	}
}

func (v validator) checkFile(name string, at path) {
	if name == "" {
		return
	}
	info, err := os.Stat(v.plan.Abs(name))
	switch {
	case err != nil:
		v.Report(fault{Code: document.CodeFile, At: at, Hint: v.pathHint(name)}, "%s", cannotUse("file", name, files.Reason(err)))
	case info.IsDir():
		v.Report(fault{Code: document.CodeFile, At: at}, "%q is a folder, not a file", name)
	}
}

func (v validator) checkGlob(name string, at path) {
	if name == "" {
		return
	}
	switch _, err := files.Expand(v.plan.Dir, name); {
	case errors.Is(err, files.ErrFolder):
		v.Report(fault{Code: document.CodeFile, At: at, Hint: "write " + filepath.ToSlash(filepath.Join(name, "*.yaml"))}, "%q is a folder, not a file", name)
	case err != nil:
		v.Report(fault{Code: document.CodeFile, At: at, Hint: v.pathHint(name)}, "%s", cannotUse("file", name, err))
	}
}

func (v validator) checkChart(h plan.Helm, at path) {
	if !h.IsLocal() {
		return
	}
	full := v.plan.Abs(h.Chart)
	info, err := os.Stat(full)
	switch {
	case err != nil:
		v.Report(fault{Code: document.CodeFile, At: at, Hint: v.pathHint(h.Chart)}, "%s", cannotUse("chart", h.Chart, files.Reason(err)))
	case info.IsDir():
		if _, err := os.Stat(filepath.Join(full, "Chart.yaml")); err != nil {
			v.Report(fault{Code: document.CodeFile, At: at}, "the folder %q is no chart: it has no Chart.yaml", h.Chart)
		}
	case !strings.HasSuffix(h.Chart, ".tgz") && !strings.HasSuffix(h.Chart, ".tar.gz"):
		v.Report(fault{Code: document.CodeFile, At: at}, "the file %q is no chart: its name does not end in .tgz", h.Chart)
	}
}

// pathHint says where a relative path was looked for, or a file that is near.
func (v validator) pathHint(name string) string {
	full := v.plan.Abs(name)
	entries, err := os.ReadDir(filepath.Dir(full))
	if err == nil && len(entries) <= 1000 && !strings.ContainsAny(name, "*?[") {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if near := v.near.Find(filepath.Base(full), names); near != "" {
			return fmt.Sprintf("did you mean %q?", strings.TrimSuffix(name, filepath.Base(name))+near)
		}
	}
	if filepath.IsAbs(name) {
		return ""
	}
	return "paths are relative to the folder of the plan"
}
