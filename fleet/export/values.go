package export

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
)

// values are those of a helm step, its files merged in order and what the plan itself has
// last. What cannot be read without a key, or is secret, is told of and left out.
func (s *step) values() (map[string]any, error) {
	all := map[string]any{}
	for _, name := range s.Helm.ValuesFiles {
		if plan.IsAddress(name) {
			s.lost(s.at("helm.values_files"), "put what it has into a file beside the plan", "step %s: the values at %s are left out: they are fetched when the plan runs", s.Name, name)
			continue
		}
		text, evaluated := s.Evaluated[s.Path(name)]
		if !evaluated {
			b, err := os.ReadFile(s.Path(name))
			if err != nil {
				return nil, fmt.Errorf("step %s: %w", s.Name, err)
			}
			text = b
		}
		var values map[string]any
		if err := yaml.Unmarshal(text, &values); err != nil {
			return nil, fmt.Errorf("step %s: %s: %w", s.Name, name, err)
		}
		if values["sops"] != nil {
			s.lost(s.at("helm.values_files"), "make a Secret of it in the cluster, and name it in valuesFrom", "step %s: %s is encrypted, and its values are left out", s.Name, name)
			continue
		}
		merge(all, values)
	}
	merge(all, s.Helm.Values)
	for _, name := range slices.Sorted(maps.Keys(s.Helm.SetFile)) {
		s.lost(s.at("helm.set_file"), "put the text into the values", "step %s: the value %s, the text of a file, is left out", s.Name, name)
	}
	s.take("helm.values", "helm.values_files", "helm.set_file", "helm.evaluate")
	return s.public(all, "values", "make a Secret of it in the cluster; Flux takes it by valuesFrom, Argo CD by a plugin"), nil
}

// merge puts values over those before, as Helm does: maps are merged, null takes away.
func merge(all, over map[string]any) {
	for k, v := range over {
		inner, isMap := v.(map[string]any)
		before, wasMap := all[k].(map[string]any)
		switch {
		case isMap && wasMap:
			merge(before, inner)
		case isMap:
			fresh := map[string]any{}
			merge(fresh, inner)
			all[k] = fresh
		default:
			all[k] = v
		}
	}
}

// public returns v without texts that hold something sensitive, and tells where they were.
func (s *step) public(v map[string]any, path, hint string) map[string]any {
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if s.plan.Sensitive.Text(k) != k {
			s.lost(s.Locate(), hint, "step %s: a name in %s is sensitive, and left out", s.Name, path)
			continue
		}
		if p, shown := s.shown(v[k], path+"."+k, hint); shown {
			out[k] = p
		}
	}
	return out
}

func (s *step) shown(v any, path, hint string) (any, bool) {
	var text string
	switch v := v.(type) {
	case map[string]any:
		return s.public(v, path, hint), true
	case []any:
		all := make([]any, 0, len(v))
		for i, e := range v {
			p, shown := s.shown(e, fmt.Sprintf("%s[%d]", path, i), hint)
			if !shown {
				p = nil // its place stays, for the others keep theirs
			}
			all = append(all, p)
		}
		return all, true
	case string:
		text = v
	case nil, bool:
		return v, true
	default:
		text = fmt.Sprint(v)
	}
	if s.plan.Sensitive.Text(text) == text {
		return v, true
	}
	s.lost(s.Locate(), hint, "step %s: %s is sensitive, and left out", s.Name, path)
	return nil, false
}

// hide takes out of all that was made what is sensitive nonetheless, such as the name of a
// namespace, and tells of it. The plan's files as pods read them are not looked at: they are
// as the user has them, and values that are given are not in them.
func (x *exporter) hide() {
	hidden := false
	redact := func(text string) string {
		for _, set := range x.secrets {
			if t := set.Text(text); t != text {
				text, hidden = t, true
			}
		}
		return text
	}
	for i, o := range x.Objects {
		if o["kind"] != "ConfigMap" {
			x.Objects[i], _ = redacted(o, redact).(map[string]any)
		}
	}
	for name, text := range x.Files {
		x.Files[name] = []byte(redact(string(text)))
	}
	if hidden {
		x.lost(x.inPlan(), "find the marks in what was written, and put the values in by hand", "something sensitive is left out of fields that must have a value")
	}
}

// redacted is v with all texts redacted.
func redacted(v any, redact func(string) string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[redact(k)] = redacted(e, redact)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = redacted(e, redact)
		}
		return out
	case string:
		return redact(v)
	}
	return v
}
