package load

import (
	slashpath "path"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// checkFiles looks at the paths, globs and addresses that a step reads from. evaluate
// says that expressions in them are evaluated.
func (v stepValidator) checkFiles(names []string, at path, evaluate bool) {
	v.checkPaths(names, at)
	values := at.Last() == "values_files"
	for i, name := range names {
		at := at.Index(i)
		switch {
		case name == plan.Stdin && values:
			v.Report(fault{At: at, Hint: "name a file, or write values"}, "values are not read from standard input")
		case strings.HasPrefix(name, "oci://") && values:
			v.Report(fault{At: at, Hint: "name a file, or an https address"}, "values are not read from a registry")
		case evaluate && (name == plan.Stdin || plan.IsAddress(name)):
			v.Report(fault{At: at, Hint: "evaluate is for files on disk: make a step of its own for the others"}, "expressions in %q cannot be evaluated when the plan is read", document.Cut(name, 80))
		case plan.IsAddress(name):
			v.checkAddress(name, at)
		case strings.Contains(name, "://"):
			v.Report(fault{At: at, Hint: "give a path, https://… or oci://…"}, "files cannot be read from %q", document.Cut(name, 80))
		}
	}
	on := at[:len(at)-1].Key("evaluate")
	if evaluate && len(names) == 0 && isBare(v.value(at)) {
		v.ReportField(fault{At: on, Hint: "remove it: expressions in the plan itself are always evaluated"}, "evaluate is of use with %s only", at.Last())
	}
}

// checkAddress looks at the address of a file or an artifact.
func (v stepValidator) checkAddress(name string, at path) {
	_, err := plan.ParseAddress(name)
	if err == nil {
		return
	}
	hint := ""
	if strings.HasPrefix(name, "http://") {
		hint = "write https://…, or add #sha256: and the digest of the file"
	}
	v.Report(fault{At: at, Hint: hint}, "the address %q %v", document.Cut(name, 100), err)
}

// checkOverlay looks at the folder of an overlay.
func (v stepValidator) checkOverlay(name string, at path) {
	v.checkText(at, "the path", "")
	switch {
	case strings.HasPrefix(name, "oci://"):
		v.checkAddress(name, at)
	case strings.Contains(name, "://") || strings.HasPrefix(name, "git@") || strings.HasPrefix(name, "github.com/"):
		v.Report(fault{At: at, Hint: "give a folder, or oci://… of an artifact; copy an overlay from git into the project"}, "overlays cannot be read from %q", document.Cut(name, 80))
	case isKustomization(slashpath.Base(name)):
		v.Report(fault{At: at, Hint: "write " + slashpath.Dir(name)}, "%q is a file: an overlay is named by its folder", document.Cut(name, 80))
	}
}

// isKustomization reports whether a file is one that makes a folder an overlay.
func isKustomization(name string) bool {
	return name == "kustomization.yaml" || name == "kustomization.yml" || name == "Kustomization"
}
