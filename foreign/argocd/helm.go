package argocd

import (
	"cmp"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
)

// release makes the helm step of a source. Argo CD calls the release as the Application,
// unless it is told otherwise.
func (a *application) release(s *foreign.Value, chart string) *foreign.Step {
	name := s.Get("helm", "releaseName").Text()
	if name == "" && len(a.made) > 0 && slices.ContainsFunc(a.made, func(m *foreign.Step) bool { return m.Name == foreign.Label(a.v.Name) }) {
		name = a.v.Name + "-" + chart // two sources of one name would be one release
		s.Get("chart").Changed("name the release: helm.release", "of several charts Argo CD makes no releases: this one is called %s", name)
	}
	step := a.plan.Helm(cmp.Or(name, a.v.Name), cmp.Or(s.Get("helm", "namespace").Text(), a.namespace))
	a.finish(step)
	return step
}

// helm takes the options of a chart, which is in a folder unless that is "".
func (a *application) helm(step *foreign.Step, h *foreign.Value, folder string) {
	f := &step.Fields
	f.Set("namespace", cmp.Or(h.Get("namespace").Text(), a.namespace))
	if a.policy.createNamespace {
		f.Set("create_namespace", true)
	}
	for _, name := range []string{"version", "releaseName", "namespace", "skipTests"} {
		h.Get(name).Take()
	}
	a.valueFiles(step, h, folder)
	var values *yaml.Node
	if object := h.Get("valuesObject"); object.IsMap() { // Argo CD takes no values then
		values = a.plan.Values(step.Name, object)
		h.Get("values").Take()
	} else {
		values = a.inline(step.Name, h.Get("values"))
	}
	for _, p := range h.Get("parameters").Items() {
		values = a.parameter(step.Name, values, p)
	}
	if values != nil && values.Kind == yaml.MappingNode {
		f.Set("values", values)
	}
	files := map[string]string{}
	for _, p := range h.Get("fileParameters").Items() {
		if name, ok := a.file(p.Get("path").Text(), folder); ok {
			files[p.Get("name").Text()] = name
		} else {
			p.Lost("name it in set_file of the helm step", "the file %s is not at hand", p.Get("path").Peek())
		}
	}
	f.Set("set_file", files)
	if h.Get("skipCrds").Or(false) {
		f.Set("crds", "skip")
	} else {
		f.Set("crds", "upgrade") // Argo CD applies them at each sync
	}
	f.Set("kube_version", h.Get("kubeVersion").Text())
	f.Set("api_versions", h.Get("apiVersions").Texts())
	f.Set("take_ownership", true)
}

// valueFiles takes files of values, those of other sources too.
func (a *application) valueFiles(step *foreign.Step, h *foreign.Value, folder string) {
	var files []string
	ignore := h.Get("ignoreMissingValueFiles").Or(false)
	for _, item := range h.Get("valueFiles").Items() {
		name := item.Text()
		file, ok := a.file(name, folder)
		switch {
		case ok:
			files = append(files, file)
		case ignore:
			item.Changed("name it in values_files when there is one", "the file %s is not there, and need not be for Argo CD", name)
		case strings.Contains(name, "://"):
			item.Lost("name it in values_files with its digest: URL#sha256:…", "the file %s is not fetched", name)
		default:
			item.Lost("copy it beside the plan, and name it in values_files", "the file %s is not at hand, and not used as values", name)
		}
	}
	step.Fields.Set("values_files", files)
}

// file is a file as the plan names it: $REF/PATH of another source, or one beside the
// chart. It is not ok for one that is not at hand.
func (a *application) file(name, folder string) (string, bool) {
	full := path.Join(folder, name)
	if strings.HasPrefix(name, "$") {
		ref, rest, _ := strings.Cut(name, "/")
		if a.refs[ref] == "" {
			return "", false
		}
		full = path.Join(a.refs[ref], rest)
	} else if folder == "" || strings.HasPrefix(name, "/") || strings.Contains(name, "://") {
		return "", false
	}
	_, err := a.in.Read(full)
	return a.in.FromPlan(full), err == nil
}

// inline are values that stand in the Application as text.
func (a *application) inline(owner string, v *foreign.Value) *yaml.Node {
	values, ok := foreign.Inline(v)
	switch {
	case !ok:
		v.Lost("write them into the plan's values", "the values are no mapping")
		return nil
	case values == nil:
		return nil
	}
	return a.plan.Conceal(owner, values, v)
}

// parameter puts a parameter over values, as helm --set does.
func (a *application) parameter(owner string, values *yaml.Node, p *foreign.Value) *yaml.Node {
	name, value := p.Get("name").Text(), p.Get("value")
	at, ok := foreign.SetPath(name)
	if !ok {
		p.Lost("write it into values", "the parameter %s is an item of a list, which a plan cannot set alone", name)
		return values
	}
	n := foreign.TextNode("")
	if value.Given() {
		n = foreign.Scalar(value, value.Text())
	}
	if !p.Get("forceString").Or(false) {
		n = foreign.Typed(n)
	}
	return foreign.Merge(values, a.plan.Conceal(owner, foreign.Nest(at, n), value))
}
