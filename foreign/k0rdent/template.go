package k0rdent

import (
	"cmp"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// chart takes the chart of the service's ServiceTemplate.
func (s *service) chart() {
	f := &s.step.Fields
	name := s.v.Get("template").Text()
	s.v.Get("templateChain").Take()
	t := s.find(group, "ServiceTemplate", s.from, name)
	if t == nil {
		f.Set("chart", foreign.FillIn)
		s.v.Get("template").Lost("import it too: kubectl get servicetemplate "+name+" -n "+cmp.Or(s.from, system)+" -o yaml, or fill in helm.chart", "the ServiceTemplate %s is not in the files", name)
		return
	}
	helm := t.Get("spec", "helm")
	spec, ref := helm.Get("chartSpec"), helm.Get("chartRef")
	for _, known := range []string{"interval", "reconcileStrategy"} {
		spec.Get(known).Take()
	}
	switch {
	case spec.IsMap():
		s.fromSpec(t, spec)
	case ref.Given():
		s.fromRef(t, ref)
	default:
		f.Set("chart", foreign.FillIn)
		s.v.Get("template").Lost("apply it by a step: apply: {kustomize: FOLDER} or {files: [FILE]}", "the ServiceTemplate %s has no chart", name)
	}
}

// fromSpec is a chart of a HelmRepository.
func (s *service) fromSpec(t *object.Object, spec *foreign.Value) {
	f := &s.step.Fields
	chart := spec.Get("chart").Text()
	kind, name := spec.Get("sourceRef", "kind").Text(), spec.Get("sourceRef", "name").Text()
	repository := s.find(sourceGroup, kind, cmp.Or(t.Namespace, s.from), name)
	url := s.address(repository)
	switch {
	case kind != "HelmRepository" || url == "":
		f.Set("chart", foreign.FillIn)
		spec.Get("chart").Lost("import it too: kubectl get "+strings.ToLower(cmp.Or(kind, "HelmRepository"))+" "+name+" -o yaml, or fill in helm.chart", "the %s %s with the chart %s is not in the files", kind, name, chart)
	case strings.HasPrefix(url, "oci://"):
		f.Set("chart", url+"/"+chart)
	default:
		f.Set("chart", chart)
		f.Set("repo", url)
	}
	f.Set("version", spec.Get("version").Text())
}

// fromRef is a chart that an object of Flux stands for.
func (s *service) fromRef(t *object.Object, ref *foreign.Value) {
	f := &s.step.Fields
	kind, name := ref.Get("kind").Text(), ref.Get("name").Text()
	o := s.find(sourceGroup, kind, cmp.Or(ref.Get("namespace").Text(), t.Namespace, s.from), name)
	if o == nil {
		f.Set("chart", foreign.FillIn)
		ref.Get("name").Lost("import it too, or fill in helm.chart", "the %s %s is not in the files", kind, name)
		return
	}
	spec := o.Get("spec")
	switch kind {
	case "OCIRepository":
		f.Set("chart", s.address(o))
		f.Set("version", cmp.Or(spec.Get("ref", "semver").Text(), spec.Get("ref", "tag").Text()))
	case "HelmChart":
		s.fromSpec(o, spec)
	default:
		f.Set("chart", foreign.FillIn)
		ref.Get("kind").Lost("fill in helm.chart", "a chart of a %s is not imported", kind)
	}
}

// address is that of a repository or registry; "" when it is not known.
func (s *service) address(o *object.Object) string {
	if o == nil {
		return ""
	}
	spec := o.Get("spec")
	for _, name := range []string{"interval", "timeout", "type", "layerSelector"} {
		spec.Get(name).Take()
	}
	if spec.Get("provider").Peek() == "generic" {
		spec.Get("provider").Take()
	}
	if spec.Get("insecure").Or(false) {
		s.step.Fields.Set("plain_http", true)
	}
	return strings.TrimSuffix(spec.Get("url").Text(), "/")
}
