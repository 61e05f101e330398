package plan

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kplan-dev/kplan/plan/internal/files"
)

// Read is a file that a run of a plan reads.
type Read struct {
	// Path is absolute, or relative to the current folder.
	Path string
	// What says for people what the file is.
	What string
}

// Reads are the files that a run of the plan reads, those of steps that are skipped
// included: whoever writes a file must not overwrite them. Var files are the
// caller's to know, and names that are made of deferred values nobody's yet.
func (p *Plan) Reads() []Read {
	r := reads{plan: p, seen: map[string]bool{}}
	for i, text := range p.Texts {
		if i == 0 {
			r.add(text.File(), "the plan")
		} else {
			r.add(text.File(), "the included plan "+text.File())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		if file := p.Clusters[name].Kubeconfig; file != "" {
			r.add(p.Abs(file), fmt.Sprintf("the kubeconfig %s of cluster %q", file, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Repositories)) {
		of := p.Repositories[name]
		for _, file := range []string{of.CAFile, of.CertFile, of.KeyFile} {
			if file != "" {
				r.add(p.Abs(file), fmt.Sprintf("the certificate file %s of repository %q", file, name))
			}
		}
	}
	for _, s := range p.Steps {
		r.step(s)
	}
	return r.all
}

// reads gathers files, each once.
type reads struct {
	plan *Plan
	all  []Read
	seen map[string]bool // paths, and folders with lists of globs
}

func (r *reads) add(path, what string) {
	if !r.seen[path] {
		r.seen[path] = true
		r.all = append(r.all, Read{path, what})
	}
}

func (r *reads) step(s Step) {
	of := fmt.Sprintf(" of step %q", s.Name)
	switch {
	case s.Helm != nil:
		for _, name := range Paths(s.Helm.ValuesFiles) {
			r.add(s.Path(name), "the values file "+name+of)
		}
		for _, name := range slices.Sorted(maps.Values(s.Helm.SetFile)) {
			r.add(s.Path(name), "the file "+name+of)
		}
		if v := s.Helm.Verify; v != nil && v.Keyring != "" {
			r.add(s.Path(v.Keyring), "the keyring "+v.Keyring+of)
		}
		if v := s.Helm.Verify; v != nil && v.Cosign != nil {
			r.add(s.Path(v.Cosign.Key), "the key "+v.Cosign.Key+of)
		}
		if s.Helm.IsLocal() {
			r.chart(s.Path(s.Helm.Chart), "the chart "+s.Helm.Chart+of)
		}
	case s.Apply != nil:
		r.globs(s.Dir, Paths(s.Apply.Files), of)
		r.overlay(s, s.Apply.Kustomize, of)
	case s.Delete != nil:
		r.globs(s.Dir, Paths(s.Delete.Files), of)
		r.overlay(s, s.Delete.Kustomize, of)
	case s.Webhook != nil:
		files := s.Webhook.Files
		if c := s.Webhook.Canary; c != nil {
			files = slices.Concat(files, c.Files())
		}
		r.globs(s.Dir, files, of)
	}
}

// globs adds what paths and globs mean. What cannot be read is told by others.
func (r *reads) globs(dir string, names []string, of string) {
	key := fmt.Sprintf("%q %q", dir, names)
	if r.seen[key] { // steps of one for_each have the same, and globs take time
		return
	}
	r.seen[key] = true
	for _, name := range names {
		found, _ := files.Expand(dir, name)
		for _, file := range found {
			r.add(file, "the file "+r.plan.Rel(file)+of)
		}
	}
}

// overlay adds what is in the folder of an overlay. Its bases are not known here.
func (r *reads) overlay(s Step, name, of string) {
	path := s.Path(name)
	if name == "" || IsAddress(name) || r.seen[path] {
		return
	}
	r.seen[path] = true
	_ = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			r.add(file, "the overlay "+name+of)
		}
		return nil
	})
}

// chart adds a chart's archive, or those files of its folder that Helm gives a
// meaning to: a plan may be in the folder too, and reports beside it.
func (r *reads) chart(path, what string) {
	if r.seen[path] {
		return
	}
	r.add(path, what)
	for _, part := range []string{"Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", ".helmignore", "templates", "crds", "charts"} {
		_ = filepath.WalkDir(filepath.Join(path, part), func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				r.add(file, what)
			}
			return nil
		})
	}
}
