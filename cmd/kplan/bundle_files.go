package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// filesFor returns the absolute paths of the files that go with a plan: what it reads,
// and all that Helm loads of its local charts, of which templates read what they like.
// Kubeconfigs, and what the command itself writes, are not among them, nor those that
// are withheld: client certificates and their keys.
func filesFor(p *plan.Plan, output string, kubeconfigs []string) (all, withheld []string, err error) {
	out := leftOut{paths: map[string]bool{}}
	out.add(absolute(output))
	for _, file := range kubeconfigs {
		out.add(absolute(file))
	}
	for _, c := range p.Clusters {
		if c.Kubeconfig != "" {
			out.add(absolute(p.Abs(c.Kubeconfig)))
		}
	}
	for _, r := range p.Repositories {
		for _, file := range []string{r.CertFile, r.KeyFile} {
			if path := absolute(p.Abs(file)); file != "" && !out.paths[path] {
				out.add(path)
				withheld = append(withheld, path)
			}
		}
	}
	add := func(path string) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !out.has(path, info) {
			all = append(all, path)
		}
	}
	for _, r := range p.Reads() {
		add(absolute(r.Path))
	}
	for _, s := range p.Steps {
		if s.Helm == nil || !s.Helm.IsLocal() {
			continue
		}
		files, err := analyze.ChartFiles(s)
		if err != nil {
			return nil, nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		for _, path := range files {
			add(absolute(path))
		}
	}
	return all, withheld, nil
}

// leftOut are files that go into no bundle, by whatever link they are reached.
type leftOut struct {
	paths map[string]bool
	files []fs.FileInfo
}

func (l *leftOut) add(path string) {
	l.paths[path] = true
	if info, err := os.Stat(path); err == nil {
		l.files = append(l.files, info)
	}
}

func (l *leftOut) has(path string, info fs.FileInfo) bool {
	return l.paths[path] || slices.ContainsFunc(l.files, func(f fs.FileInfo) bool { return os.SameFile(f, info) })
}

// relocatable reports what a step names by an absolute path: on another machine it is not
// there.
func relocatable(s plan.Step) error {
	for _, name := range namedBy(s) {
		if filepath.IsAbs(name) {
			return &usageError{
				err:  fmt.Errorf("step %q names %s by an absolute path, which is not there where the bundle is run", s.Name, name),
				hint: "name it relative to the plan",
			}
		}
	}
	return nil
}

// namedBy are the paths and addresses that a step names.
func namedBy(s plan.Step) []string {
	var names []string
	switch {
	case s.Helm != nil:
		names = append([]string{s.Helm.Chart}, s.Helm.ValuesFiles...)
		names = slices.AppendSeq(names, maps.Values(s.Helm.SetFile))
		if v := s.Helm.Verify; v != nil {
			names = append(names, v.Keyring)
			if v.Cosign != nil {
				names = append(names, v.Cosign.Key)
			}
		}
	case s.Apply != nil:
		names = append([]string{s.Apply.Kustomize}, s.Apply.Files...)
	case s.Delete != nil:
		names = append([]string{s.Delete.Kustomize}, s.Delete.Files...)
	case s.Webhook != nil:
		names = slices.Clone(s.Webhook.Files)
		if c := s.Webhook.Canary; c != nil {
			names = slices.Concat(names, c.Accept, c.Deny)
			for _, m := range c.Mutate {
				names = append(names, m.File)
			}
		}
	}
	return names
}

// commonFolder is the deepest folder that has all of some files, of which there is one
// at least.
func commonFolder(files []string) string {
	base := filepath.Dir(files[0])
	for _, f := range files[1:] {
		for !strings.HasPrefix(f, strings.TrimSuffix(base, string(filepath.Separator))+string(filepath.Separator)) {
			if up := filepath.Dir(base); up != base {
				base = up
			} else {
				return base
			}
		}
	}
	return base
}
