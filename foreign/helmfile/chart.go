package helmfile

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
)

// chartOf takes the chart and what says which one.
func (s *scope) chartOf() {
	f := &s.step.Fields
	v := s.v.Get("chart")
	if s.v.Get("chartPath").Given() {
		v.Take()
		v = s.v.Get("chartPath")
	}
	chart := s.expand(v.Text())
	version := s.text(s.v.Get("version"))
	switch {
	case chart == "" || hasUnknown(chart):
		f.Set("chart", foreign.FillIn)
		if v.Given() {
			v.Lost(build, "which chart it is depends on a template")
		} else {
			s.v.Get("name").Lost("fill in helm.chart", "the release has no chart")
		}
	case strings.Contains(chart, "::"), strings.Contains(chart, "://") && !strings.HasPrefix(chart, "oci://"):
		f.Set("chart", foreign.FillIn)
		v.Lost("fetch it into a folder and name that, or push it to a registry", "the chart %s is fetched by helmfile's go-getter, which kplan does not have", chart)
	case s.isLocal(chart):
		s.localChart(v, chart)
		version = "" // of a folder it says nothing
	case s.byPlugin[strings.Split(chart, "/")[0]]:
		f.Set("chart", foreign.FillIn)
		v.Lost("clone the repository and name the folder of the chart", "the chart %s is in a repository that a plugin of Helm fetches", chart)
	default:
		if alias, name, ok := strings.Cut(chart, "/"); ok && s.aliases[alias] != "" {
			chart = s.aliases[alias] + "/" + name
		}
		f.Set("chart", chart)
		if alias, _, ok := strings.Cut(chart, "/"); ok && !strings.HasPrefix(chart, "oci://") && s.plan.Repositories.Value(alias) == nil {
			v.Changed("declare it under repositories of the plan, so that every machine has it", "the repository %s is not in the file: it has to be known by helm repo add", alias)
		}
	}
	if version == "" && s.flag("devel", false) {
		version = ">0.0.0-0" // what helm --devel stands for
	}
	f.Set("version", version)
	if keyring := cmp.Or(s.text(s.v.Get("keyring")), s.text(s.given("helmDefaults", "keyring"))); keyring != "" && s.flag("verify", false) {
		var verify foreign.Fields
		verify.Set("keyring", s.path(keyring))
		f.Set("verify", &verify)
	}
}

// isLocal reports whether a chart is a folder or an archive.
func (s *scope) isLocal(chart string) bool {
	switch {
	case strings.HasPrefix(chart, "oci://"):
		return false
	case strings.HasPrefix(chart, "."), strings.HasPrefix(chart, "/"), strings.HasSuffix(chart, ".tgz"), !strings.Contains(chart, "/"):
		return true
	}
	_, err := s.in.Read(path.Join(foreign.Beside(s.name, chart), "Chart.yaml"))
	return err == nil
}

// localChart takes a chart on disk. A folder of manifests or of an overlay, of which
// helmfile makes a chart, is none.
func (s *scope) localChart(v *foreign.Value, chart string) {
	full := foreign.Beside(s.name, chart)
	s.step.Fields.Set("chart", s.path(chart))
	if strings.HasSuffix(chart, ".tgz") || foreign.HasExpr(chart) {
		return
	}
	if _, err := s.in.Read(path.Join(full, "Chart.yaml")); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if _, err := s.in.Read(path.Join(full, name)); err == nil {
			v.Lost("write a step with apply: {kustomize: "+s.path(chart)+"} instead", "%s is an overlay of kustomize, of which helmfile makes a chart", chart)
			return
		}
	}
	v.Lost("name the folder of the chart in helm.chart", "there is no chart in %s", chart)
}
