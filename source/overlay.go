package source

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source/kustomize"
	"github.com/kplan-dev/kplan/source/sops"
)

// overlay builds an overlay of a step.
func (s *Store) overlay(ctx context.Context, step plan.Step, name string, plainHTTP bool) (Text, error) {
	from := kustomize.Source{Folder: step.Path(name), Open: s.open, Shown: func(file string) string { return relative(step.Dir, file) }}
	text := Text{Name: "overlay " + name}
	if plan.IsAddress(name) {
		tree, at, err := s.tree(ctx, name, plainHTTP)
		if err != nil {
			return text, err
		}
		from.Files, from.Folder = map[string][]byte{}, "/"+at.Path
		for file, src := range tree {
			from.Files["/"+file] = src
		}
		from.Shown = func(file string) string { return at.URL + "/" + file }
		text.Name = "overlay " + Public(name)
	}
	built, err := s.build(from, name)
	if err != nil {
		return text, err
	}
	text.Bytes = built.YAML
	if len(bytes.TrimSpace(text.Bytes)) == 0 {
		return text, runner.Permanent(fmt.Errorf("%s has no objects", text.Name))
	}
	return text, nil
}

// build builds an overlay, once: many ask for the objects of a step, and it takes time.
func (s *Store) build(from kustomize.Source, name string) (kustomize.Built, error) {
	if s == nil {
		return kustomize.Build(from)
	}
	key := from.Folder
	if from.Files != nil {
		key = name
	}
	s.overlays.mu.Lock()
	defer s.overlays.mu.Unlock()
	if built, ok := s.overlays.built[key]; ok {
		return built, nil
	}
	built, err := kustomize.Build(from)
	if err == nil {
		if s.overlays.built == nil {
			s.overlays.built = map[string]kustomize.Built{}
		}
		s.overlays.built[key] = built
	}
	return built, err
}

// open returns what a file of an overlay holds, in plain.
func (s *Store) open(file string, src []byte) ([]byte, error) {
	if s == nil || s.options.Keys == nil {
		return src, nil
	}
	switch form := sops.FormOf(file); form {
	case sops.YAML:
		return s.decrypt(filepath.Base(file), src)
	case sops.Binary:
		plain, encrypted, err := sops.DecryptBinary(src, s.options.Keys)
		if err != nil {
			return nil, locked(filepath.Base(file), err)
		}
		if !encrypted {
			return src, nil
		}
		s.hide([]any{string(plain)})
		return plain, nil
	default:
		if bytes.Contains(src, []byte("sops_mac")) || bytes.Contains(src, []byte("[sops]")) {
			return nil, runner.WithHint(fmt.Errorf("%s is encrypted with SOPS in its %s form, which kplan does not read", filepath.Base(file), form),
				"encrypt it as YAML, or as one piece: sops encrypt --input-type binary")
		}
		return src, nil
	}
}

// artifactManifests are the manifests in an artifact: of a file, a folder and all below it,
// or a glob.
func (s *Store) artifactManifests(ctx context.Context, name string, plainHTTP bool) ([]Text, error) {
	tree, at, err := s.tree(ctx, name, plainHTTP)
	if err != nil {
		return nil, err
	}
	var all []Text
	for _, file := range sortedNames(tree) {
		whole := file == at.Path
		if !whole && !below(file, at.Path) {
			continue
		}
		if isKustomization(file) {
			return nil, runner.WithHint(runner.Permanent(fmt.Errorf("%s has an overlay, %s, which takes building", Public(name), file)),
				"name it in kustomize: "+strings.TrimSuffix(at.URL+"//"+strings.TrimSuffix(path.Dir(file), "."), "//"))
		}
		if ext := path.Ext(file); !whole && ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue
		}
		shown := Public(at.URL) + "//" + file
		src, err := s.decrypt(shown, tree[file])
		if err != nil {
			return nil, err
		}
		all = append(all, Text{Name: shown, Bytes: src})
	}
	if len(all) == 0 {
		return nil, runner.Permanent(fmt.Errorf("%s has no manifests there", Public(name)))
	}
	return all, nil
}

// below reports whether a file of an artifact is in a folder of it, or matches a glob.
func below(file, want string) bool {
	if want == "" || strings.HasPrefix(file, want+"/") {
		return true
	}
	matches, err := path.Match(want, file)
	return err == nil && matches
}

func isKustomization(file string) bool {
	switch path.Base(file) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return true
	}
	return false
}
