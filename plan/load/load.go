// Package load reads a plan file and the plans that it includes. A file goes
// through it in this order: its document is read, its variables get their values,
// the expressions of its fields are resolved, the fields are decoded and validated,
// and the steps of all files are put into one list.
//
// It looks at files only: nothing of a cluster is known here. What is known only
// when a step starts is left to Step.Bind of package plan.
package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/internal/nearest"
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
	// Env looks up the environment variables that the plan's variables name; their
	// values are read as those of Set (default os.LookupEnv).
	Env func(name string) (value string, ok bool)
	// Unknown takes a sensitive variable that has no value for one that only the run
	// knows: a plan is looked at where its secrets are not at hand.
	Unknown bool
	// Files are texts to be read in the place of the plan and of plans that it
	// includes, by absolute path: what they would be after an edit.
	Files map[string][]byte
}

// Load reads the plan file at Path, with its variables resolved, and checks all
// that can be known without a cluster, the files that it names included. The
// error is a Diagnostics with every fault.
func File(path string, in Options) (*plan.Plan, error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, document.Diagnostics{{Pos: document.Pos{File: path}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
	}
	src, given := in.Files[filepath.Join(dir, filepath.Base(path))]
	if !given {
		if src, err = readFile(path); err != nil {
			return nil, document.Diagnostics{{Pos: document.Pos{File: path}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
		}
	}
	return parse(path, dir, src, in, true)
}

// Parse reads a plan from src as Load does, but does not look whether the files
// that the plan names exist. Messages call the plan file; paths in the plan are
// relative to file's folder.
func Parse(file string, src []byte, in Options) (*plan.Plan, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, document.Diagnostics{{Pos: document.Pos{File: file}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
	}
	return parse(file, dir, src, in, false)
}

// readFile reads a plan or var file up to one byte more than the bound, which
// readSource then refuses.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("is a folder, not a file")
	}
	src, err := io.ReadAll(io.LimitReader(f, document.MaxSize+1))
	if err != nil {
		return nil, fileError(err)
	}
	return src, nil
}

// fileError leaves out the path and the system call, which the position and the
// message name already.
func fileError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("cannot read the file: %w", err)
}

func parse(file, dir string, src []byte, in Options, onDisk bool) (*plan.Plan, error) {
	c := newChecker(file, dir)
	c.onDisk = onDisk
	c.load(src, in, nil)
	c.flatten()
	c.checkAll()
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.plan.Variables = c.variables()
	return c.plan, nil
}

func newChecker(name, dir string) *checker {
	secrets := &redact.Set{}
	return &checker{
		plan:     &plan.Plan{File: name, Dir: dir, Sensitive: secrets},
		Reporter: document.Reporter{Faults: &document.Faults{Secrets: secrets}}, file: file{binding: &sync.Mutex{}, shared: &shared{near: &nearest.Finder{}, cost: expr.NewBudget()}},
	}
}

// read gives the values of the plan's file.
func (c *checker) read(src []byte) (root map[string]any, ok bool) {
	s, tree, ok := document.Read(c.plan.File, src, document.Options{Order: c.order, Keys: document.PlanKeys}, c.Faults)
	c.Source, c.text = s, document.TextOf(s)
	if !ok {
		return nil, false
	}
	root, ok = tree.(map[string]any)
	if !ok {
		c.Add(s, s.ValuePos(nil), document.Fault{Code: document.CodeWrongType, Hint: "start with apiVersion: " + plan.APIVersion}, "expected a plan, which is a mapping, got %s", document.Describe(tree))
	}
	c.tree = root
	return root, ok
}

// LoadVars reads of the plan file at Path only its variables, whatever else is
// wrong with it: the Plan has Vars, Variables and Sensitive. The error is a
// Diagnostics with every fault of variables; the Plan is nil only when the file is
// no YAML mapping.
func Vars(path string, in Options) (*plan.Plan, error) {
	src, err := readFile(path)
	if err != nil {
		return nil, document.Diagnostics{{Pos: document.Pos{File: path}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, document.Diagnostics{{Pos: document.Pos{File: path}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
	}
	c := newChecker(path, dir)
	root, ok := c.read(src)
	if !ok {
		return nil, c.Err()
	}
	if metadata, ok := root["metadata"].(map[string]any); ok {
		c.plan.Metadata.Name, _ = metadata["name"].(string)
	}
	c.readVars(root, in, nil)
	if root["vars"] != nil {
		c.set(reflect.ValueOf(&c.plan.Vars).Elem(), root["vars"], []any{"vars"})
	}
	c.plan.Variables = c.variables()
	return c.plan, c.Err()
}

// variables are the plan's variables, sorted by name.
func (c *checker) variables() []plan.Variable {
	list := make([]plan.Variable, len(c.declared))
	for i, d := range c.declared {
		list[i] = d.variable()
	}
	return list
}
