package load

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
)

func (v stepValidator) checkHelm(s plan.Step, at path) {
	h := *s.Helm
	v.checkLabel(h.Namespace, at.Key("namespace"))
	v.checkRelease(s, at)
	v.checkPaths(h.ValuesFiles, at.Key("values_files"))
	chart, repo := at.Key("chart"), at.Key("repo")
	switch {
	case h.Chart == "":
		v.checkText(chart, "the chart", "")
	case h.IsLocal():
		if h.Repo != "" {
			v.ReportField(fault{At: repo, Hint: "remove it, or give the chart's name without the path"}, "repo is of no use for the chart %q, which is a path", document.Cut(h.Chart, 80))
		}
	case h.IsOCI():
		if h.Repo != "" {
			v.ReportField(fault{At: repo, Hint: "remove it: oci:// names the registry already"}, "repo is of no use for an oci:// chart")
		}
		if strings.Trim(strings.TrimPrefix(h.Chart, "oci://"), "/") == "" || !strings.Contains(strings.TrimPrefix(h.Chart, "oci://"), "/") {
			v.Report(fault{At: chart, Hint: "write oci://HOST/PATH/CHART"}, "the address %q names no chart", document.Cut(h.Chart, 80))
		}
		if _, tag := h.OCITag(); tag != "" && h.Version != "" && tag != strings.ReplaceAll(h.Version, "+", "_") {
			v.Report(fault{At: at.Key("version"), Hint: "write the version once"}, "the chart has the tag %q, but the version is %q", document.Cut(tag, 80), document.Cut(h.Version, 80))
		}
	case strings.Contains(h.Chart, "://"):
		v.Report(fault{At: chart, Hint: "give oci://HOST/PATH, a path such as ./chart, or the chart's name together with repo"}, "charts cannot be read from %q", document.Cut(h.Chart, 80))
	case !v.has(repo):
		hint := "give repo: https://…, or write ./" + document.Cut(h.Chart, 60) + " for a folder"
		if alias, name, found := strings.Cut(h.Chart, "/"); found && !strings.HasSuffix(name, ".tgz") {
			hint = fmt.Sprintf("names from helm repo add are not known here: write chart: %s and repo: with the address of %s, or ./%s for a folder", document.Cut(name, 60), document.Cut(alias, 60), document.Cut(h.Chart, 60))
		}
		v.Report(fault{At: chart, Hint: hint}, "it is not said where the chart %q comes from", document.Cut(h.Chart, 80))
	case h.Repo != "" && !strings.HasPrefix(h.Repo, "https://") && !strings.HasPrefix(h.Repo, "http://"):
		hint := "write https://…"
		if strings.HasPrefix(h.Repo, "oci://") {
			hint = "write chart: " + document.Cut(strings.TrimSuffix(h.Repo, "/")+"/"+h.Chart, 100) + " and no repo"
		}
		v.Report(fault{At: repo, Hint: hint}, "%q is not the address of a chart repository", document.Cut(h.Repo, 80))
	}
}

// checkRelease knows that Helm allows fewer characters than a step's name has.
func (v stepValidator) checkRelease(s plan.Step, at path) {
	name := s.ReleaseName()
	if name == "" || names.IsSubdomain(name, maxReleaseName) {
		return
	}
	if s.Helm.Release != "" {
		v.Report(fault{At: at.Key("release"), Hint: fmt.Sprintf("use small letters, digits, - and ., at most %d", maxReleaseName)}, "%q cannot be the name of a release", document.Cut(name, 80))
	} else if !v.has(at.Key("release")) && names.IsLabel(name) {
		v.ReportField(fault{At: at, Hint: "give a shorter name in release"}, "the step's name is too long for a release: %d characters, Helm takes %d", len(name), maxReleaseName)
	}
}
