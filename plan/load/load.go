// Package load reads a plan file and the plans that it includes. A file goes
// through it in this order: its document is read, its variables get their values,
// the expressions of its fields are resolved, the fields are decoded and validated,
// and the steps of all files are put into one list.
//
// It looks at files only: nothing of a cluster is known here. What is known only
// when a step starts is left to Step.Bind of package plan.
package load

import (
	"path/filepath"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/internal/files"
	"github.com/kplan-dev/kplan/plan/redact"
)

// Options are the values of variables that are given from outside of the plan.
type Options struct {
	// Set are name=value pairs; of several for one name the last wins. How a
	// value is read depends on the variable's type:
	//
	//   - string: the value as it is, so that 1.10 and true stay text;
	//   - number, integer, boolean: the value must be one;
	//   - list, map: the value is YAML, such as [a, b];
	//   - any: as helm --set does: true, false, null and whole numbers are what
	//     they look like, [a, b] and {a: b} are YAML, all else is text.
	Set []string
	// VarFiles are YAML files of name: value. Later ones win, Set wins over all.
	VarFiles []string
	// Fleet are values by name that a fleet gives to variables of the plan for one of its
	// clusters. VarFiles and Set win over them.
	Fleet map[string]any
	// Env looks up the environment variables that the plan's variables name; their
	// values are read as those of Set (default os.LookupEnv).
	Env func(name string) (value string, ok bool)
	// Unknown takes a sensitive variable that has no value for one that only the run
	// knows: a plan is looked at where its secrets are not at hand.
	Unknown bool
	// Unset does so with every variable that has no value, and does not look for files
	// that the plan's steps name: only its outline is wanted.
	Unset bool
	// Decrypter opens var files, and files whose expressions are evaluated, that are
	// encrypted; without one they are read as they are.
	Decrypter Decrypter
	// Files are texts to be read in the place of the plan and of plans that it
	// includes, by absolute path: what they would be after an edit.
	Files map[string][]byte
	// HelmEngine is that of all helm steps, whatever the plan says; empty for what
	// that says.
	HelmEngine plan.HelmEngine
}

// Decrypter opens encrypted files.
type Decrypter interface {
	// Decrypt returns what a file holds, and which values of it were encrypted; a file that
	// is not encrypted it returns as it is, without values. Of an error these are asked for:
	// Hint() string, Position() (line, column int), and NoKey() bool for one that says that
	// no key is at hand.
	Decrypt(src []byte) (text []byte, secrets []any, err error)
}

// decrypt is the Decrypter's, or leaves files as they are.
func (o Options) decrypt(src []byte) (text []byte, secrets []any, err error) {
	if o.Decrypter == nil {
		return src, nil, nil
	}
	return o.Decrypter.Decrypt(src)
}

// File reads the plan file at a path, with its variables resolved, and checks all
// that can be known without a cluster, the files that it names included. The
// error is a document.Diagnostics with every fault.
func File(name string, in Options) (*plan.Plan, error) {
	p, err := newPlan(name, !in.Unset)
	if err != nil {
		return nil, err
	}
	src, given := in.Files[filepath.Join(p.plan.Dir, filepath.Base(name))]
	if !given {
		if src, err = files.Read(name, document.MaxSize); err != nil {
			return nil, unreadable(name, err)
		}
	}
	return p.all(src, in)
}

// Parse reads a plan from src as File does, but does not look whether the files
// that the plan names exist. Messages call the plan name; paths in the plan are
// relative to the folder of that.
func Parse(name string, src []byte, in Options) (*plan.Plan, error) {
	p, err := newPlan(name, false)
	if err != nil {
		return nil, err
	}
	return p.all(src, in)
}

// Vars reads of a plan file only its variables, whatever else is wrong with it: the
// Plan has Vars, Variables and Sensitive. The error is a document.Diagnostics with
// every fault of variables; the Plan is nil only when the file is no YAML mapping.
func Vars(name string, in Options) (*plan.Plan, error) {
	src, err := files.Read(name, document.MaxSize)
	if err != nil {
		return nil, unreadable(name, err)
	}
	p, err := newPlan(name, false)
	if err != nil {
		return nil, err
	}
	root, ok := p.read(src)
	if !ok {
		return nil, p.Err()
	}
	if metadata, ok := root["metadata"].(map[string]any); ok {
		p.plan.Metadata.Name, _ = metadata["name"].(string)
	}
	p.readVars(root, in, nil)
	if root["vars"] != nil {
		p.set(&p.plan.Vars, root["vars"], path{"vars"})
	}
	p.plan.Variables = p.vars.Variables()
	return p.plan, p.Err()
}

// unreadable is the error of a plan file that cannot be read.
func unreadable(name string, err error) error {
	return document.Diagnostics{{Pos: document.Pos{File: name}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
}

// newPlan starts a session with the file that was asked for.
func newPlan(name string, onDisk bool) (*pass, error) {
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, unreadable(name, err)
	}
	secrets := &redact.Set{}
	s := newSession(&document.Faults{Secrets: secrets})
	return s.pass(&file{plan: &plan.Plan{File: name, Dir: dir, Sensitive: secrets}, onDisk: onDisk}), nil
}

// all reads the plan and all that it includes.
func (p *pass) all(src []byte, in Options) (*plan.Plan, error) {
	p.load(src, in, nil)
	flatten(p)
	p.validateWhole(newWhole(p.plan))
	if err := p.Err(); err != nil {
		return nil, err
	}
	p.plan.Variables = p.vars.Variables()
	return p.plan, nil
}
