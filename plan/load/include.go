package load

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/internal/files"
	"github.com/kplan-dev/kplan/plan/load/internal/vars"
)

// Bounds of includes.
const (
	maxDepth         = 10
	maxIncludes      = 500
	maxIncludedBytes = 4 << 20
)

// include reads the plan of an include step; nil when it has a fault, which is
// reported.
func (p *pass) include(it *instance, in Options) *file {
	e := it.decl
	inc := it.step.Include
	at := e.at.Key("include").Key("plan")
	if inc.Plan == "" {
		newValidator(p).checkText(at, "the path", "")
		return nil
	}
	abs := p.plan.Abs(inc.Plan)
	chain := p.chain()
	switch {
	case slices.Contains(chain, abs):
		p.Report(fault{Code: document.CodeCycle, At: at}, "the plan %q includes itself", inc.Plan)
		return nil
	case len(chain) >= maxDepth:
		p.Report(fault{At: at}, "plans include each other more than %d deep", maxDepth)
		return nil
	}
	src, given := in.Files[abs]
	var err error
	if !given {
		src, err = files.ReadPlain(abs, document.MaxSize)
	}
	if err != nil {
		hint := ""
		if errors.Is(files.Reason(err), files.ErrMissing) {
			hint = fileFinder{p}.pathHint(inc.Plan)
		}
		p.Report(fault{Code: document.CodeFile, At: at, Hint: hint}, "%s", cannotUse("plan", inc.Plan, files.Reason(err)))
		return nil
	}
	p.sum.files++
	p.sum.bytes += len(src)
	if p.sum.files > maxIncludes || p.sum.bytes > maxIncludedBytes {
		if !p.sum.tooMany {
			p.sum.tooMany = true
			p.Report(fault{At: at}, "the plan includes more than %d plans or %d bytes", maxIncludes, maxIncludedBytes)
		}
		return nil
	}
	child := p.pass(p.newChild(it, abs))
	child.load(src, Options{Env: in.Env, Files: in.Files, Unknown: in.Unknown, Unset: in.Unset, Decrypter: in.Decrypter}, &vars.Include{
		Reporter: p.Reporter, At: e.at.Key("include"), Step: e.name, Plan: inc.Plan, Values: p.includeVars(it),
	})
	p.checkIncludeClusters(child.file, e, inc)
	return child.file
}

// newChild makes the file of an included plan.
func (p *pass) newChild(it *instance, abs string) *file {
	name := it.step.Include.Plan
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(p.plan.File), name)
	}
	return &file{
		plan:   &plan.Plan{File: name, Dir: filepath.Dir(abs), Sensitive: p.plan.Sensitive},
		parent: p.file, parentInstance: it,
		prefix: it.flatName() + "/", skip: p.skip || it.skip, order: p.fileOrder(abs), onDisk: p.onDisk,
	}
}

// chain are the files that are being read: this one, and those which include it.
func (f *file) chain() []string {
	var files []string
	for ; f != nil; f = f.parent {
		files = append(files, filepath.Join(f.plan.Dir, filepath.Base(f.plan.File)))
	}
	return files
}

// fileOrder sorts the faults of included files after those of the plan and its var
// files, in the order in which the files are first read.
func (p *pass) fileOrder(abs string) int {
	i := slices.Index(p.includedFiles, abs)
	if i < 0 {
		i = len(p.includedFiles)
		p.includedFiles = append(p.includedFiles, abs)
	}
	return 1<<20 + i
}

// includeVars are the values that an include gives to the other plan's variables.
func (p *pass) includeVars(it *instance) map[string]vars.Given {
	include, _ := it.tree["include"].(map[string]any)
	raw, _ := include["vars"].(map[string]any)
	values := make(map[string]vars.Given, len(raw))
	for name, v := range raw {
		at := it.decl.at.Key("include").Key("vars").Key(name)
		values[name] = vars.Given{Value: v, Origin: document.Origin{Text: p.source, At: at}, Secret: it.hasSecret(at)}
	}
	return values
}

// checkIncludeClusters looks whether the clusters that an include maps are there.
func (p *pass) checkIncludeClusters(child *file, e *stepDecl, inc *plan.Include) {
	at := e.at.Key("include").Key("clusters")
	for _, name := range slices.Sorted(maps.Keys(inc.Clusters)) {
		if _, ok := child.clusters()[name]; !ok {
			hint := p.near.Hint(name, slices.Sorted(maps.Keys(child.clusters())))
			p.ReportField(fault{Code: document.CodeUnknownName, At: at.Key(name), Hint: hint}, "the plan %q has no cluster %q", inc.Plan, name)
		}
		newValidator(p).checkClusterName(inc.Clusters[name], at.Key(name))
	}
}
