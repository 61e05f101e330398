// Package script makes a plan of a shell script or a Makefile: of its helm and kubectl
// commands, in their order. Variables become variables of the plan.
//
// It runs nothing, and knows no value that only a run of the script would know: what
// other programs print, its arguments, what is in the cluster. Of all that is neither
// helm nor kubectl it says that it is left out.
package script

import (
	"fmt"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// About says what of a script is in the plan, for the help of the command.
const About = `Read shell scripts and Makefiles, and write a plan of their helm and kubectl commands. Each step needs the one before it.

helm upgrade --install and install become helm steps with their flags, helm repo add a repository. kubectl apply, create namespace,
wait, rollout status and delete become steps too. Variables with a plain value become variables of the plan; ${X:-default} and
X ?= default read the environment first. Steps of a Makefile have their target as a tag.

sleep and loops that try again are left out, and it is said why a plan does without. Of an if, what it does when true is in the plan.
All other programs are told of.`

// maxSteps bounds the steps of one plan: functions and loops may call each other.
const maxSteps = 1000

// importer makes one plan.
type importer struct {
	in     foreign.Input
	result *foreign.Result
	plan   *foreign.Plan
	vars   map[string]*variable // by their names in the plan
	files  map[string]bool      // names of files beside the plan
	// last is the step that the next one needs.
	last *foreign.Step
	// tags are those of the next step.
	tags []string
	// hosts are the repositories of helm repo add, by their names in the script.
	hosts map[string]string
	steps int
}

// Import makes a plan of scripts. They are read as if one followed the other.
func Import(in foreign.Input) (*foreign.Result, error) {
	im := &importer{
		in: in, result: &foreign.Result{}, plan: &foreign.Plan{Name: in.Name},
		vars: map[string]*variable{}, files: map[string]bool{}, hosts: map[string]string{},
	}
	im.result.Plan = im.plan
	var names []string
	for _, f := range in.Files {
		if len(f.Data) > document.MaxSize {
			return nil, fmt.Errorf("%s: %w", f.Name, foreign.ErrTooLarge)
		}
		names = append(names, path.Base(f.Name))
		f.Data = []byte(foreign.Clean(string(f.Data)))
		var err error
		if isMakefile(f.Name) {
			err = im.makefile(f)
		} else {
			err = im.shell(f)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := im.result.Filled("there is no helm or kubectl command in it that a plan can have"); err != nil {
		return nil, err
	}
	im.declareVars()
	im.plan.Comments = []string{"Made by kplan import script of " + strings.Join(names, ", ") + "."}
	if im.plan.Name == "" && len(names) > 0 {
		im.plan.Name = strings.TrimSuffix(names[0], path.Ext(names[0]))
	}
	im.result.Before("compare: kplan diff PLAN shows what it would change of what the script installed")
	im.result.Before("look for steps that need not wait for each other, and take those needs out: a script has one order, whether it matters or not")
	return im.result, nil
}

// shell imports a shell script.
func (im *importer) shell(f foreign.File) error {
	file, err := parse(f.Name, string(f.Data))
	if err != nil {
		return err
	}
	w := newWalker(im, f.Name, 0)
	return w.run(file)
}

// parse reads shell text. The parser panics over some texts that are none.
func parse(name, text string) (file *syntax.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: this is no shell script: %v", name, p)
		}
	}()
	file, err = syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name)
	if err != nil {
		return nil, fmt.Errorf("%s", document.Clean(err.Error()))
	}
	return file, nil
}

// add adds a step that needs the one before it.
func (im *importer) add(kind plan.Kind, names ...string) (*foreign.Step, error) {
	if im.steps++; im.steps > maxSteps {
		return nil, fmt.Errorf("the script makes more than %d steps", maxSteps)
	}
	s := im.plan.Add(&foreign.Step{Kind: kind, Tags: im.tags}, names...)
	s.Need(im.last, "")
	im.last = s
	return s, nil
}

// file writes a file beside the plan, and returns its path as the plan has it.
func (im *importer) file(folder, base, text string) string {
	name := ""
	for i := 1; name == "" || im.files[name]; i++ {
		name = folder + "/" + base + ".yaml"
		if i > 1 {
			name = fmt.Sprintf("%s/%s-%d.yaml", folder, base, i)
		}
	}
	im.files[name] = true
	im.result.Files = append(im.result.Files, foreign.File{Name: name, Data: []byte(text)})
	return "./" + name
}
