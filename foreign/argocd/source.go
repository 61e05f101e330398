package argocd

import (
	"cmp"
	"path"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
	"github.com/kplan-dev/kplan/plan"
)

// source makes a step of one source.
func (a *application) source(s *foreign.Value) {
	s.Get("name").Take()
	url, revision := s.Get("repoURL").Text(), s.Get("targetRevision").Text()
	chart := s.Get("chart").Text()
	folder := s.Get("path").Text()
	switch {
	case s.Get("plugin").IsMap():
		s.Get("plugin").Lost("apply what it renders: kplan run reads manifests from files", "a plugin of Argo CD renders the source of %s, which is not imported", a.v.Name)
	case chart != "" || strings.HasPrefix(url, "oci://") && (s.Get("helm").Given() || folder == "." || folder == ""):
		a.chart(s, url, chart, revision)
	default:
		a.folder(s, url, folder, revision)
	}
}

// chart makes a helm step of a chart of a repository or registry.
func (a *application) chart(s *foreign.Value, url, chart, revision string) {
	url = strings.TrimSuffix(url, "/")
	step := a.release(s, cmp.Or(chart, path.Base(url)))
	f := &step.Fields
	switch {
	case strings.HasPrefix(url, "http://"), strings.HasPrefix(url, "https://"):
		f.Set("chart", chart)
		f.Set("repo", url)
	case url == "":
		f.Set("chart", foreign.FillIn)
		s.Lost("fill in helm.chart", "the chart %s has no repository", chart)
	default: // a registry, with or without oci://
		f.Set("chart", strings.TrimSuffix("oci://"+strings.TrimPrefix(url, "oci://")+"/"+chart, "/"))
	}
	if revision != "*" && revision != "HEAD" {
		f.Set("version", revision)
	}
	a.helm(step, s.Get("helm"), "")
}

// folder makes a step of a folder of a repository: of a chart, of an overlay, or of
// manifests.
func (a *application) folder(s *foreign.Value, url, folder, revision string) {
	if dir := a.above(a.v.File, []string{path.Join(folder, "Chart.yaml")}); dir != "" || s.Get("helm").Given() {
		step := a.release(s, path.Base(folder))
		full := path.Join(dir, folder)
		if dir == "" {
			step.Fields.Set("chart", foreign.FillIn)
			s.Get("path").Lost(checkout(url, revision), "the chart %s is not at hand", folder)
		} else {
			step.Fields.Set("chart", a.in.FromPlan(full))
		}
		a.helm(step, s.Get("helm"), full)
		return
	}
	var names []string
	for _, name := range overlayNames {
		names = append(names, path.Join(folder, name))
	}
	if dir := a.above(a.v.File, names); dir != "" {
		a.overlaid(s, path.Join(dir, folder))
		return
	}
	a.manifests(s, url, folder, revision)
}

// manifests makes a step of a folder of plain manifests. One with nothing but Applications
// that are imported themselves needs none.
func (a *application) manifests(s *foreign.Value, url, folder, revision string) {
	s.Get("directory", "recurse").Take()
	if dir, apps := a.given(folder); dir != "" {
		a.objectsOf(apps)
		return
	}
	a.apply(s, "files", []string{a.in.FromPlan(path.Join(cmp.Or(folder, "."), "*.yaml"))})
	s.Get("path").Lost(checkout(url, revision), "the folder %s is not at hand: what is in it is not known", cmp.Or(folder, "of the repository"))
}

// objectsOf makes a step of the objects that an Application has beside others.
func (a *application) objectsOf(apps bool) {
	a.followed = apps
	if len(a.members) == 0 {
		return
	}
	rest := object.Rest{Plan: a.plan, Report: &a.result.Report, In: a.in, Objects: a.members, Name: a.v.Name, All: a.objects}
	a.hooks(a.members)
	ns := a.makeNamespace()
	if step := rest.Any(); step != nil {
		a.applied(step, ns)
	}
}

// checkout says how a folder gets at hand.
func checkout(url, revision string) string {
	text := "check out " + cmp.Or(url, "its repository")
	if revision != "" && revision != "HEAD" {
		text += " at " + revision
	}
	return text + " beside the plan, and let the path lead there"
}

// given finds the objects of the files that are below a folder of a repository, and
// whether there are Applications among them.
func (a *application) given(folder string) (found string, apps bool) {
	if folder == "" || folder == "." {
		return "", false
	}
	for dir := path.Dir(a.v.File); ; dir = path.Dir(dir) {
		full := path.Join(dir, folder)
		for _, o := range a.objects {
			if !strings.HasPrefix(o.File, full+"/") || a.replaced[o] {
				continue
			}
			found = full
			if isOwn(o) {
				apps = true
			} else {
				a.members = append(a.members, o)
			}
		}
		if found != "" || dir == "." || dir == "/" {
			return found, apps
		}
	}
}

// apply makes an apply step with a field that says what is applied.
func (a *application) apply(s *foreign.Value, field string, value any) {
	s.Get("directory", "recurse").Take()
	ns := a.makeNamespace()
	step := a.plan.Add(&foreign.Step{Kind: plan.KindApply}, a.v.Name, a.v.Name+"-"+path.Base(s.Get("path").Peek()))
	step.Fields.Set(field, value)
	a.applied(step, ns)
}

// applied fills in what the Application says of a step that applies objects.
func (a *application) applied(step, namespace *foreign.Step) {
	step.Need(namespace, "")
	step.Fields.Set("namespace", a.namespace)
	if a.policy.prune {
		step.Fields.Set("prune", true)
	}
	step.Fields.Set("wait", "ready") // Argo CD waits for health between waves
	a.finish(step)
}
