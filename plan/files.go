package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/internal/files"
)

// IsLocal reports whether the chart is a folder or archive on disk.
func (h Helm) IsLocal() bool {
	return h.Chart == "." || h.Chart == ".." || strings.HasPrefix(h.Chart, "./") || strings.HasPrefix(h.Chart, "../") || filepath.IsAbs(h.Chart)
}

// IsOCI reports whether the chart is in an OCI registry.
func (h Helm) IsOCI() bool { return strings.HasPrefix(h.Chart, "oci://") }

// OCITag takes the tag off the chart's reference, as in oci://host/chart:1.2.3; ""
// when there is none, or a digest.
func (h Helm) OCITag() (chart, tag string) {
	last := strings.LastIndexByte(h.Chart, '/')
	if !h.IsOCI() || strings.Contains(h.Chart, "@") {
		return h.Chart, ""
	}
	i := strings.IndexByte(h.Chart[last+1:], ':')
	if i < 0 || last < len("oci://") { // what follows a colon of the host is a port
		return h.Chart, ""
	}
	return h.Chart[:last+1+i], h.Chart[last+2+i:]
}

// Abs returns the absolute path of a file that the plan names.
func (p *Plan) Abs(name string) string { return files.Abs(p.Dir, name) }

// Path returns the absolute path of a file that the step names: paths are relative
// to the folder of the plan that the step was read from, which may be an included one.
func (s Step) Path(name string) string { return files.Abs(s.Dir, name) }

// Files returns the absolute paths that the step's paths and globs mean, in their
// order, what a glob matches sorted, each file once. It is an error when one does not
// exist, when a glob matches nothing, or when one is a folder.
func (s Step) Files(names []string) ([]string, error) {
	var all []string
	seen := map[string]bool{}
	for _, name := range names {
		found, err := files.Expand(s.Dir, name)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", name, err)
		}
		for _, f := range found {
			if !seen[f] {
				seen[f] = true
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// Rel is the path of a file as whoever named the plan would name it.
func (p *Plan) Rel(file string) string {
	rel, err := filepath.Rel(p.Dir, file)
	if err != nil {
		return file
	}
	return filepath.Join(filepath.Dir(p.File), rel)
}

// Files returns the paths and globs of the files of all canaries.
func (c Canary) Files() []string {
	all := slices.Concat(c.Accept, c.Deny)
	for _, m := range c.Mutate {
		all = append(all, m.File)
	}
	return all
}
