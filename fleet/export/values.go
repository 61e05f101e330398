package export

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	return s.public(all, "values"), nil
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
func (s *step) public(v map[string]any, path string) map[string]any {
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if p, shown := s.shown(v[k], path+"."+k); shown {
			out[k] = p
		}
	}
	return out
}

func (s *step) shown(v any, path string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return s.public(v, path), true
	case []any:
		all := make([]any, 0, len(v))
		for i, e := range v {
			p, shown := s.shown(e, fmt.Sprintf("%s[%d]", path, i))
			if !shown {
				p = nil // its place stays, for the others keep theirs
			}
			all = append(all, p)
		}
		return all, true
	}
	b, err := json.Marshal(v)
	if err != nil || s.Plan.Sensitive.Text(string(b)) == string(b) {
		return v, true
	}
	s.lost(s.Locate(), "make a Secret of it in the cluster; Flux takes it by valuesFrom, Argo CD by a plugin", "step %s: %s is sensitive, and left out", s.Name, path)
	return nil, false
}

// manifests puts the manifests of an apply step into a folder of the Git repository, and
// returns the folder's path there.
func (s *step) manifests() (string, error) {
	dir := filepath.ToSlash(filepath.Join(s.Git.Path, objectName(s.Name)))
	s.take("apply.files", "apply.objects", "apply.evaluate", "apply.kustomize", "apply.plain_http")
	if s.Apply.Kustomize != "" {
		s.changed(s.at("apply.kustomize"), "", "step %s: the overlay is read from the Git repository at %s: copy the folder %s there", s.Name, dir, s.Apply.Kustomize)
		s.first("copy %s to %s in the Git repository", s.Apply.Kustomize, dir)
		return dir, nil
	}
	var names []string
	for i, name := range s.Apply.Files {
		if plan.IsAddress(name) || name == plan.Stdin {
			s.lost(s.at("apply.files"), "put the manifests beside the plan", "step %s: %s is left out: it is read when the plan runs", s.Name, name)
			continue
		}
		files, err := s.Files([]string{name})
		if err != nil {
			return "", fmt.Errorf("step %s: %w", s.Name, err)
		}
		for _, file := range files {
			text, evaluated := s.Evaluated[file]
			if !evaluated {
				if text, err = os.ReadFile(file); err != nil {
					return "", fmt.Errorf("step %s: %w", s.Name, err)
				}
			}
			if s.Plan.Sensitive.Text(string(text)) != string(text) {
				s.lost(s.at("apply.files"), "encrypt it with SOPS: Flux decrypts it", "step %s: %s has something sensitive, and is left out", s.Name, name)
				continue
			}
			if strings.Contains(string(text), "\nsops:") {
				s.first("give Flux the key of %s: decryption in the Kustomization; Argo CD takes a plugin", name)
			}
			base := fmt.Sprintf("%02d-%s", i+1, filepath.Base(file))
			x := dir + "/" + base
			s.Result.Files[x], names = text, append(names, base)
		}
	}
	for i, o := range s.Apply.Objects {
		text, err := yaml.Marshal(s.public(o, fmt.Sprintf("objects[%d]", i)))
		if err != nil {
			return "", fmt.Errorf("step %s: %w", s.Name, err)
		}
		base := fmt.Sprintf("object-%02d.yaml", i+1)
		s.Result.Files[dir+"/"+base], names = text, append(names, base)
	}
	k := map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names}
	if s.Apply.Namespace != "" {
		s.changed(s.at("apply.namespace"), "", "step %s: the namespace is given to all objects, also to those that name one", s.Name)
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return "", fmt.Errorf("step %s: %w", s.Name, err)
	}
	s.Result.Files[dir+"/kustomization.yaml"] = text
	return dir, nil
}
