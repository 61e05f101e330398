package load

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/internal/files"
)

// Bounds of includes.
const (
	maxDepth         = 10
	maxIncludes      = 500
	maxIncludedBytes = 4 << 20
)

// include reads the plan of an include step; nil when it has a fault, which is
// reported.
func (c *checker) include(e *stepDecl, it *instance) *checker {
	inc := it.step.Include
	at := e.at.Key("include").Key("plan")
	if inc.Plan == "" {
		if c.isEmptyText(at) {
			c.Report(document.Fault{At: at}, "the path is empty")
		}
		return nil
	}
	abs := c.plan.Abs(inc.Plan)
	chain := c.chain()
	switch {
	case slices.Contains(chain, abs):
		c.Report(document.Fault{Code: document.CodeCycle, At: at}, "the plan %q includes itself", inc.Plan)
		return nil
	case len(chain) >= maxDepth:
		c.Report(document.Fault{At: at}, "plans include each other more than %d deep", maxDepth)
		return nil
	}
	src, given := c.in.Files[abs]
	var err error
	if !given {
		src, err = readPlain(abs)
	}
	if err != nil {
		hint := ""
		if errors.Is(files.Reason(err), files.ErrMissing) {
			hint = c.pathHint(inc.Plan)
		}
		c.Report(document.Fault{Code: document.CodeFile, At: at, Hint: hint}, "%s", cannotUse("plan", inc.Plan, files.Reason(err)))
		return nil
	}
	c.sum.files++
	c.sum.bytes += len(src)
	if c.sum.files > maxIncludes || c.sum.bytes > maxIncludedBytes {
		if !c.sum.tooMany {
			c.sum.tooMany = true
			c.Report(document.Fault{At: at}, "the plan includes more than %d plans or %d bytes", maxIncludes, maxIncludedBytes)
		}
		return nil
	}
	child := c.newChild(e, it, abs)
	child.load(src, Options{Env: c.in.Env, Files: c.in.Files, Unknown: c.in.Unknown}, c.includeVars(e, it))
	c.checkIncludeClusters(child, e, inc)
	return child
}

// newChild makes the checker of an included plan.
func (c *checker) newChild(e *stepDecl, it *instance, abs string) *checker {
	file := it.step.Include.Plan
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(c.plan.File), file)
	}
	child := newChecker(file, filepath.Dir(abs))
	child.shared = c.shared
	child.Faults, child.plan.Sensitive = c.Faults, c.plan.Sensitive
	child.parent, child.parentDecl, child.parentInstance = c, e, it
	child.prefix = e.flatName(it) + "/"
	child.skip = c.skip || it.skip
	child.order = c.fileOrder(abs)
	return child
}

// chain are the files that are being read: this one, and those which include it.
func (c *checker) chain() []string {
	var files []string
	for ; c != nil; c = c.parent {
		files = append(files, filepath.Join(c.plan.Dir, filepath.Base(c.plan.File)))
	}
	return files
}

// fileOrder sorts the faults of included files after those of the plan and its var
// files, in the order in which the files are first read.
func (c *checker) fileOrder(abs string) int {
	i := slices.Index(c.includedFiles, abs)
	if i < 0 {
		i = len(c.includedFiles)
		c.includedFiles = append(c.includedFiles, abs)
	}
	return 1<<20 + i
}

// includeVars are the values that an include gives to the other plan's variables.
func (c *checker) includeVars(e *stepDecl, it *instance) map[string]given {
	include, _ := it.tree["include"].(map[string]any)
	raw, _ := include["vars"].(map[string]any)
	vars := make(map[string]given, len(raw))
	for name, v := range raw {
		at := e.at.Key("include").Key("vars").Key(name)
		vars[name] = given{value: v, origin: document.Origin{Text: c.text, At: at}, secret: it.hasSecret(at)}
	}
	return vars
}

// checkIncludeClusters looks whether the clusters that an include maps are there.
func (c *checker) checkIncludeClusters(child *checker, e *stepDecl, inc *plan.Include) {
	at := e.at.Key("include").Key("clusters")
	for _, name := range slices.Sorted(maps.Keys(inc.Clusters)) {
		if _, ok := child.clusters()[name]; !ok {
			hint := c.near.Hint(name, slices.Sorted(maps.Keys(child.clusters())))
			c.ReportField(document.Fault{Code: document.CodeUnknownName, At: at.Key(name), Hint: hint}, "the plan %q has no cluster %q", inc.Plan, name)
		}
		c.checkClusterName(inc.Clusters[name], at.Key(name))
	}
}

var errNotPlain = errors.New("is not a plain file")

// readPlain reads a file that is neither a folder nor a device, up to one byte more
// than is read of a plan.
func readPlain(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, files.ErrFolder
	case !info.Mode().IsRegular():
		return nil, errNotPlain
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, document.MaxSize+1))
}
