package diff

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
)

// Helm fills in what a helm step would do.
func (s *Step) Helm(p *helm.Preview) error {
	var err error
	if s.Objects, err = Objects(p.Objects, "helm"); err != nil {
		return err
	}
	s.Release = &Release{
		Namespace: p.Namespace, Name: p.Name, Does: p.Does, Revision: p.Revision, Chart: p.Chart, Hooks: p.Hooks,
		Chance: chance(p.Rendered, p.Again),
	}
	if p.Before != "" && p.Before != p.Chart {
		s.Release.ChartBefore = p.Before
	}
	if p.Does == helm.Upgrades {
		s.Release.Values = Values(p.ValuesBefore, p.Values)
	}
	s.State = Unchanged
	if p.Does != helm.Nothing {
		s.State = Changes
	}
	s.Message = s.Release.String()
	s.settle()
	s.digest = digestOf(p.Objects, steady(p.Rendered, p.Again))
	return nil
}

// String says what would be done with the release.
func (r *Release) String() string {
	name := "release " + r.Namespace + "/" + r.Name
	switch r.Does {
	case helm.Installs:
		return fmt.Sprintf("install %s, chart %s, revision %d", name, r.Chart, r.Revision)
	case helm.Upgrades:
		text := "upgrade " + name
		if r.ChartBefore != "" {
			text += " from chart " + r.ChartBefore
		}
		return fmt.Sprintf("%s to chart %s, revision %d", text, r.Chart, r.Revision)
	case helm.Corrects:
		return fmt.Sprintf("%s has drifted and is put right; it stays revision %d", name, r.Revision)
	}
	return fmt.Sprintf("%s, chart %s, stays revision %d", name, r.Chart, r.Revision)
}

// Apply fills in what an apply step would do.
func (s *Step) Apply(all []*dryrun.Object) error {
	var err error
	if s.Objects, err = Objects(all, "kplan"); err != nil {
		return err
	}
	s.State = Unchanged
	if len(s.Objects) > 0 {
		s.State = Changes
	}
	s.settle()
	var sent []*unstructured.Unstructured
	for _, o := range all {
		sent = append(sent, bare(o.After))
	}
	s.digest = digestOf(all, sent)
	return nil
}

// Offline fills in what a step would send to a cluster that is not there yet.
func (s *Step) Offline(sent []*unstructured.Unstructured, why string) error {
	var all []*dryrun.Object
	for _, u := range sent {
		o := dryrun.Of(u)
		o.Guess(u, why)
		all = append(all, o)
	}
	err := s.Apply(all)
	s.State, s.Message = Unknown, why
	return err
}

// settle sees whether the step would fail.
func (s *Step) settle() {
	if slices.ContainsFunc(s.Objects, func(o Object) bool { return o.Error != "" }) {
		s.State = Fails
	}
}

// chance names the objects of which two renderings differ.
func chance(a, b []*unstructured.Unstructured) []string {
	var names []string
	for i, u := range steady(a, b) {
		if i < len(a) && strings.Contains(fmt.Sprint(u.Object), byChance) {
			names = append(names, dryrun.Of(a[i]).ID())
		}
	}
	return names
}

// byChance stands for what is another in each rendering.
const byChance = "(made by each rendering)"

// steady are the objects of a rendering, without what another one has otherwise.
func steady(a, b []*unstructured.Unstructured) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(a))
	for i, u := range a {
		out[i] = u
		if i < len(b) {
			same, _ := both(u.Object, b[i].Object).(map[string]any)
			out[i] = &unstructured.Unstructured{Object: same}
		}
	}
	return out
}

func both(a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			out := map[string]any{}
			for name, v := range a {
				out[name] = both(v, b[name])
			}
			return out
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			out := make([]any, len(a))
			for i := range a {
				out[i] = both(a[i], b[i])
			}
			return out
		}
	}
	if fmt.Sprint(a) == fmt.Sprint(b) {
		return a
	}
	return byChance
}
