package load

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// fileFinder looks whether the files that the plan names are there. The folder of the
// plan is no fence: a plan is as trusted as the one who runs it.
type fileFinder struct{ *pass }

// all looks for the files of all steps.
func (f fileFinder) all() {
	for _, e := range f.decls {
		for _, it := range e.instances {
			f.step(it.step, e.at)
		}
	}
}

func (f fileFinder) step(s plan.Step, at path) {
	if s.Helm != nil {
		f.chart(*s.Helm, at.Key("helm").Key("chart"))
		for j, name := range s.Helm.ValuesFiles {
			if !isElsewhere(name) {
				f.find(name, at.Key("helm").Key("values_files").Index(j))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Helm.SetFile)) {
			f.find(s.Helm.SetFile[name], at.Key("helm").Key("set_file").Key(name))
		}
	}
	if s.Apply != nil {
		f.globs(s.Apply.Files, at.Key("apply").Key("files"))
		f.overlay(s.Apply.Kustomize, at.Key("apply").Key("kustomize"))
	}
	if s.Delete != nil {
		f.globs(s.Delete.Files, at.Key("delete").Key("files"))
		f.overlay(s.Delete.Kustomize, at.Key("delete").Key("kustomize"))
	}
	if s.Webhook != nil {
		f.webhook(*s.Webhook, at.Key("webhook"))
	}
}

func (f fileFinder) webhook(w plan.Webhook, at path) {
	f.globs(w.Files, at.Key("files"))
	if w.Canary == nil {
		return
	}
	canary := at.Key("canary")
	f.globs(w.Canary.Accept, canary.Key("accept"))
	f.globs(w.Canary.Deny, canary.Key("deny"))
	for j, m := range w.Canary.Mutate {
		f.glob(m.File, canary.Key("mutate").Index(j).Key("file"))
	}
}

func (f fileFinder) globs(names []string, at path) {
	for j, name := range names {
		if isElsewhere(name) && (at.Last() == "files" && at[len(at)-2] != "webhook") {
			continue
		}
		f.glob(name, at.Index(j))
	}
}

// isElsewhere reports whether a file of a step is not on disk. Whether it is there is
// seen when it is fetched.
func isElsewhere(name string) bool {
	return name == plan.Stdin || plan.IsAddress(name) || strings.Contains(name, "://")
}

// overlay looks for the folder of an overlay.
func (f fileFinder) overlay(name string, at path) {
	full := f.plan.Abs(name)
	if name == "" || isElsewhere(name) || isKustomization(filepath.Base(name)) {
		return
	}
	entries, err := os.ReadDir(full)
	switch {
	case err != nil:
		f.Report(fault{Code: document.CodeFile, At: at, Hint: f.pathHint(name)}, "%s", cannotUse("folder", name, files.Reason(err)))
	case !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return isKustomization(e.Name()) }):
		f.Report(fault{Code: document.CodeFile, At: at, Hint: "make one: kustomize create --autodetect; or give its manifests in files"}, "the folder %q has no kustomization.yaml", name)
	}
}

func (f fileFinder) find(name string, at path) {
	if name == "" {
		return
	}
	info, err := os.Stat(f.plan.Abs(name))
	switch {
	case err != nil:
		f.Report(fault{Code: document.CodeFile, At: at, Hint: f.pathHint(name)}, "%s", cannotUse("file", name, files.Reason(err)))
	case info.IsDir():
		f.Report(fault{Code: document.CodeFile, At: at}, "%q is a folder, not a file", name)
	}
}

func (f fileFinder) glob(name string, at path) {
	if name == "" {
		return
	}
	switch _, err := files.Expand(f.plan.Dir, name); {
	case errors.Is(err, files.ErrFolder):
		f.Report(fault{Code: document.CodeFile, At: at, Hint: "write " + filepath.ToSlash(filepath.Join(name, "*.yaml"))}, "%q is a folder, not a file", name)
	case err != nil:
		f.Report(fault{Code: document.CodeFile, At: at, Hint: f.pathHint(name)}, "%s", cannotUse("file", name, err))
	}
}

func (f fileFinder) chart(h plan.Helm, at path) {
	full := f.plan.Abs(h.Chart)
	if !h.IsLocal() {
		if _, err := os.Stat(filepath.Join(full, "Chart.yaml")); err == nil && h.Repo == "" && isAliased(h.Chart) && !f.hasAlias(h.Chart) {
			f.Report(fault{At: at, Hint: "write ./" + h.Chart + " for the folder"}, "%q is a folder and the name of a chart in a repository", document.Cut(h.Chart, 80))
		}
		return
	}
	info, err := os.Stat(full)
	switch {
	case err != nil:
		f.Report(fault{Code: document.CodeFile, At: at, Hint: f.pathHint(h.Chart)}, "%s", cannotUse("chart", h.Chart, files.Reason(err)))
	case info.IsDir():
		if _, err := os.Stat(filepath.Join(full, "Chart.yaml")); err != nil {
			f.Report(fault{Code: document.CodeFile, At: at}, "the folder %q is no chart: it has no Chart.yaml", h.Chart)
		}
	case !strings.HasSuffix(h.Chart, ".tgz") && !strings.HasSuffix(h.Chart, ".tar.gz"):
		f.Report(fault{Code: document.CodeFile, At: at}, "the file %q is no chart: its name does not end in .tgz", h.Chart)
	}
}

// pathHint says where a relative path was looked for, or a file that is near.
func (f fileFinder) pathHint(name string) string {
	full := f.plan.Abs(name)
	entries, err := os.ReadDir(filepath.Dir(full))
	if err == nil && len(entries) <= 1000 && !strings.ContainsAny(name, "*?[") {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if near := f.near.Find(filepath.Base(full), names); near != "" {
			return fmt.Sprintf("did you mean %q?", strings.TrimSuffix(name, filepath.Base(name))+near)
		}
	}
	if filepath.IsAbs(name) {
		return ""
	}
	return "paths are relative to the folder of the plan"
}
