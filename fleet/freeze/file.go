package freeze

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source/lock"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// What a bundle takes at most.
const (
	maxFile  = 16 << 20
	maxTotal = 64 << 20
	maxFiles = 20000
)

// files are those that a plan reads, of all clusters together.
type files struct {
	plan  string // its path
	paths map[string]bool
	// lock is the path of the lock file, if there is one.
	lock string
}

// add takes in the files of a plan that was read with other values.
func (f *files) add(o *files) {
	if f.paths == nil {
		f.paths = map[string]bool{}
	}
	f.plan, f.lock = o.plan, cmp.Or(f.lock, o.lock)
	for path := range o.paths {
		f.paths[path] = true
	}
}

// filesOf are the files that a run of a plan reads: the plan and those that it includes,
// manifests, values, all that Helm loads of charts on disk, and the lock file. Kubeconfigs
// are not among them, nor client certificates and their keys.
func filesOf(p *plan.Plan) (*files, error) {
	f := &files{plan: absolute(p.File), paths: map[string]bool{}}
	withheld := map[string]bool{}
	for _, c := range p.Clusters {
		if c.Kubeconfig != "" {
			withheld[absolute(p.Abs(c.Kubeconfig))] = true
		}
	}
	for _, r := range p.Repositories {
		for _, file := range []string{r.CertFile, r.KeyFile} {
			if file != "" {
				withheld[absolute(p.Abs(file))] = true
			}
		}
	}
	add := func(path string) {
		path = absolute(path)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !withheld[path] {
			f.paths[path] = true
		}
	}
	add(p.File)
	for _, r := range p.Reads() {
		add(r.Path)
	}
	for _, s := range p.Steps {
		if s.Helm == nil || !s.Helm.IsLocal() {
			continue
		}
		found, err := analyze.ChartFiles(s)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		for _, path := range found {
			add(path)
		}
	}
	if path := absolute(lock.Path(p.File)); isFile(path) {
		f.lock = path
		add(path)
	}
	return f, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// bundle reads the files.
func (f *files) bundle() (*Bundle, error) {
	if len(f.paths) > maxFiles {
		return nil, usageError{fmt.Errorf("the plan reads %d files, and %d are the most that are frozen", len(f.paths), maxFiles)}
	}
	var paths []string
	for path := range f.paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	base := commonFolder(paths)
	b := &Bundle{Plan: below(base, f.plan), Locked: f.lock != ""}
	for _, path := range paths {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		if b.Size += int64(len(text)); b.Size > maxTotal {
			return nil, tooLarge("the plan's files together", maxTotal)
		}
		b.files = append(b.files, bundled{below(base, path), text})
	}
	slices.SortFunc(b.files, func(a, b bundled) int { return strings.Compare(a.name, b.name) })
	b.Digest = digestOf(b.Plan, b.files)
	return b, nil
}

// readFile reads a file that is not too large.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, usageError{err}
	}
	if len(text) > maxFile {
		return nil, tooLarge("the file "+path, maxFile)
	}
	return text, nil
}

func tooLarge(what string, most int) error {
	return usageError{runner.WithHint(fmt.Errorf("%s: more than %d MiB, which is the most that is frozen", what, most>>20),
		"keep charts and manifests that are large in a registry, and name them by their address")}
}

// digestOf is the digest of files by their names and content: it does not depend on how they
// are packed.
func digestOf(planFile string, all []bundled) string {
	h := sha256.New()
	fmt.Fprintf(h, "kplan fleet bundle %d\n%q\n", bundleVersion, planFile)
	for _, f := range all {
		fmt.Fprintf(h, "%q %x\n", f.name, sha256.Sum256(f.text))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// below is a path relative to a folder that it is in, with slashes.
func below(base, path string) string {
	rel, err := filepath.Rel(base, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// commonFolder is the deepest folder that has all of some files, of which there is one at
// least.
func commonFolder(paths []string) string {
	base := filepath.Dir(paths[0])
	for _, path := range paths[1:] {
		for !strings.HasPrefix(path, strings.TrimSuffix(base, string(filepath.Separator))+string(filepath.Separator)) {
			up := filepath.Dir(base)
			if up == base {
				return base
			}
			base = up
		}
	}
	return base
}
