// Package helmfile makes a plan of a helmfile: its releases with their values, the order
// that needs give them, repositories, environments and hooks that apply manifests. What
// helmfile prints by build is read as well, and is all that is needed of a helmfile with
// templates that decide what there is.
//
// It renders no templates but those that read one value, which become expressions of the
// plan. It fetches nothing: helmfiles and values of git repositories are told of.
//
// The fields are those of helmfile 1.8 (pkg/state/state.go, ReleaseSetSpec, HelmSpec,
// ReleaseSpec), and so is what holds where one is not given.
package helmfile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
)

// About says what of a helmfile is in the plan, for the help of the command.
const About = `Read helmfiles, or what 'helmfile build' prints, and write a plan of their releases. A folder is taken as helmfile takes it.

Releases become helm steps: chart, version, namespace, values, set, wait, timeout, atomic, needs, labels as tags, kubeContext as a
cluster. Namespaces are created unless createNamespace is false. Environments become files of variables beside the plan, such as
production.vars.yaml for --var-file. Bases and helmfiles of the same folders are read too; a helmfile that another one names comes
before it, as in helmfile.

{{ .Values.x }} and {{ requiredEnv "X" }} become variables. All other templates, hooks that run programs, patches and .gotmpl files
are told of. For a helmfile with many templates, import what 'helmfile -e ENVIRONMENT build --embed-values' prints.`

// The bounds of what one import reads.
const (
	maxDepth = 16
	maxFiles = 200
)

// importer makes one plan.
type importer struct {
	in     foreign.Input
	result *foreign.Result
	plan   *foreign.Plan
	// vars are the environment variables that templates read.
	vars map[string]variable
	// environments are what all states say of them, in their order.
	environments []*environment
	// releases are all of them, in their order.
	releases []*release
	// aliases are the plan's names of repositories, by those of helmfiles.
	aliases map[string]string
	// byPlugin are the repositories that only a plugin of Helm fetches.
	byPlugin map[string]bool
	// files counts those that were read.
	files int
	// written are the names of files beside the plan.
	written map[string]bool
	// valueFiles are files of values beside the plan.
	valueFiles []*valueFile
	// paths are those of values of environments, by the variables that stand for them.
	paths map[string]string
}

// valueFile is a file of values that is written when its variables have their names.
type valueFile struct {
	name   string
	values *yaml.Node
	step   *foreign.Step
}

// Import makes a plan of helmfiles.
func Import(in foreign.Input) (*foreign.Result, error) {
	im := &importer{in: in, result: &foreign.Result{}, plan: &foreign.Plan{Name: in.Name}, vars: map[string]variable{}, aliases: map[string]string{}, byPlugin: map[string]bool{}, paths: map[string]string{}, written: map[string]bool{}}
	im.result.Plan = im.plan
	for _, f := range in.Files {
		group, err := im.file(f, nil, nil)
		if err != nil {
			return nil, err
		}
		im.releases = append(im.releases, group...)
	}
	if err := im.result.Filled("there are no releases in it"); err != nil {
		return nil, err
	}
	im.linkNeeds()
	if err := im.declareVars(); err != nil {
		return nil, err
	}
	if err := im.writeValueFiles(); err != nil {
		return nil, err
	}
	im.describe()
	return im.result, nil
}

// describe says where the plan comes from, and what to do first.
func (im *importer) describe() {
	var names []string
	for _, f := range im.in.Files {
		names = append(names, path.Base(f.Name))
	}
	if im.plan.Name == "" && len(im.in.Files) > 0 {
		im.plan.Name = path.Base(path.Dir(im.in.Files[0].Name))
		if foreign.Label(im.plan.Name) == "" {
			im.plan.Name = "helmfile"
		}
	}
	im.plan.Comments = []string{"Made by kplan import helmfile of " + strings.Join(names, ", ") + "."}
	im.result.Before("stop running helmfile for these releases: kplan takes over their records as they are, and both would upgrade them in turn")
	im.result.Before("compare: kplan diff PLAN shows what it would change of what helmfile installed")
}

// state is one helmfile: its parts, between which stands ---, and those of its bases. Of a
// field that several have the last one holds; lists are put together.
type state struct {
	*importer
	name  string
	parts []*foreign.Value
	envs  []*environment
}

// given returns the value of a field in the last part that has it; nil when none has.
func (st *state) given(names ...string) *foreign.Value {
	var found *foreign.Value
	for _, p := range st.parts {
		if v := p.Get(names...); v.Given() {
			found = v
		}
	}
	return found
}

// all returns the items of a list in all parts.
func (st *state) all(name string) []*foreign.Value {
	var items []*foreign.Value
	for _, p := range st.parts {
		items = append(items, p.Get(name).Items()...)
	}
	return items
}

// read reads the documents of a file.
func (im *importer) read(f foreign.File) ([]*foreign.Value, error) {
	if im.files++; im.files > maxFiles {
		return nil, fmt.Errorf("%s: more than %d files", f.Name, maxFiles)
	}
	t := &template{file: f.Name, report: &im.result.Report, vars: im.vars, shifts: map[int][]shift{}}
	text := strings.ReplaceAll(foreign.Clean(string(f.Data)), string(unknown), "?")
	text = t.render(text)
	docs, err := foreign.Read(foreign.File{Name: f.Name, Data: []byte(text)}, foreign.Options{Column: t.column}, &im.result.Report)
	if err != nil && strings.Contains(string(f.Data), "{{") {
		return nil, fmt.Errorf("%w: the file has templates; %s", err, build)
	}
	return docs, err
}

var sourceLine = regexp.MustCompile(`(?m)^# +Source: (\S.*)$`)

// file imports one file, and returns its releases. Those of after come before them.
func (im *importer) file(f foreign.File, within []string, after []*release) ([]*release, error) {
	if len(within) >= maxDepth || slices.Contains(within, f.Name) {
		return nil, fmt.Errorf("%s: helmfiles name each other in a circle", f.Name)
	}
	docs, err := im.read(f)
	if err != nil {
		return nil, err
	}
	within = append(slices.Clone(within), f.Name)
	if len(docs) == 0 || !allBuilt(docs) {
		return im.state(&state{importer: im, name: f.Name, parts: docs}, within, after)
	}
	// Helmfile build prints each helmfile with those that it names before it, and where
	// it stands.
	sources := sourceLine.FindAllStringSubmatch(string(f.Data), -1)
	var all []*release
	for i, doc := range docs {
		name := f.Name
		if len(sources) == len(docs) {
			name = sources[i][1]
		}
		doc.Get("helmfiles").Take()
		group, err := im.state(&state{importer: im, name: name, parts: []*foreign.Value{doc}}, within, after)
		if err != nil {
			return nil, err
		}
		if len(group) > 0 {
			after = group
		}
		all = append(all, group...)
	}
	return all, nil
}

// allBuilt reports whether the documents are those that helmfile build prints.
func allBuilt(docs []*foreign.Value) bool {
	return !slices.ContainsFunc(docs, func(d *foreign.Value) bool { return !d.Get("filepath").Given() })
}

// state imports one helmfile with those that it names.
func (im *importer) state(st *state, within []string, after []*release) ([]*release, error) {
	if err := st.addBases(within); err != nil {
		return nil, err
	}
	st.takeOwnWork()
	st.readEnvironments()
	im.environments = append(im.environments, st.envs...)
	var all []*release
	for _, sub := range st.all("helmfiles") {
		group, err := st.sub(sub, within, after)
		if err != nil {
			return nil, err
		}
		all = append(all, group...)
		if len(group) > 0 {
			after = group
		}
	}
	st.readRepositories()
	var own []*release
	for _, v := range st.all("releases") {
		if r := st.release(v); r != nil {
			own = append(own, r)
			r.after = after
		}
	}
	for _, p := range st.parts {
		p.Leftovers(losses)
	}
	return append(all, own...), nil
}

// addBases puts the parts of bases before those of the file.
func (st *state) addBases(within []string) error {
	own := st.parts
	for _, p := range own {
		for _, item := range p.Get("bases").Items() {
			name := item.Text()
			parts, err := st.open(item, name, within)
			if err != nil {
				return err
			}
			base := &state{importer: st.importer, name: foreign.Beside(st.name, name), parts: parts}
			if err := base.addBases(append(within, base.name)); err != nil {
				return err
			}
			st.parts = slices.Concat(base.parts, st.parts)
		}
	}
	return nil
}

// open reads a file that a value names; without parts it was told of.
func (st *state) open(at *foreign.Value, name string, within []string) ([]*foreign.Value, error) {
	full := foreign.Beside(st.name, name)
	switch {
	case name == "" || hasUnknown(name) || foreign.HasExpr(name):
		at.Lost(build, "which file it is, is not known here")
		return nil, nil
	case strings.Contains(name, "://") || strings.Contains(name, "::"):
		at.Lost("fetch it, and import it too", "%s is not on disk, and is not imported", name)
		return nil, nil
	case len(within) >= maxDepth || slices.Contains(within, full):
		return nil, fmt.Errorf("%s: helmfiles name each other in a circle", full)
	}
	data, err := st.in.Read(full)
	if err != nil {
		at.Lost("", "%s cannot be read, and is not imported", name)
		return nil, nil
	}
	return st.read(foreign.File{Name: full, Data: data})
}

// sub imports a helmfile that this one names.
func (st *state) sub(v *foreign.Value, within []string, after []*release) ([]*release, error) {
	named := v
	if v.IsMap() {
		named = v.Get("path")
	}
	name := named.Text()
	if named == nil {
		return nil, nil
	}
	for _, file := range []string{name, path.Join(name, "helmfile.yaml"), path.Join(name, "helmfile.yaml.gotmpl")} {
		if file == "" || strings.ContainsAny(name, "*?[") || hasUnknown(name) || foreign.HasExpr(name) || strings.Contains(name, "://") {
			break
		}
		full := foreign.Beside(st.name, file)
		data, err := st.in.Read(full)
		if err != nil {
			continue
		}
		return st.file(foreign.File{Name: full, Data: data}, within, after)
	}
	named.Lost("import it too: kplan import helmfile takes several files", "the helmfile %s is not found here, and not imported", document.Cut(name, 120))
	return nil, nil
}

// takeOwnWork takes fields that say how helmfile itself works, and nothing of what it
// installs.
func (st *state) takeOwnWork() {
	for _, p := range st.parts {
		for _, name := range []string{"filepath", "helmBinary", "kustomizeBinary", "renderedvalues", "templates", "lockFilePath", "llm", "ignoreMissingGitBranch"} {
			p.Get(name).Take()
		}
		for _, name := range []string{
			"skipDeps", "skipRefresh", "diffArgs", "templateArgs", "suppressOutputLineRegex", "disableAutoDetectedKubeVersionForDiff", "resolveOCIVersions",
			"deleteWait", "deleteTimeout", "cascade", "suppressDiff",
		} {
			p.Get("helmDefaults", name).Take()
		}
	}
}
