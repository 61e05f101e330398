package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Inputs are the values of variables that are given from outside of the plan.
type Inputs struct {
	// Set are name=value pairs; of several for one name the last wins. How a
	// value is read depends on the variable's default:
	//
	//   - text: the value as it is, so that 1.10 and true stay text;
	//   - a number, true or false: the value must be the same;
	//   - a list or mapping: the value is YAML, such as [a, b];
	//   - none, or null: as helm --set does: true, false, null and whole numbers
	//     are what they look like, [a, b] and {a: b} are YAML, all else is text.
	Set []string
	// VarFiles are YAML files of name: value. Later ones win, Set wins over all.
	VarFiles []string
}

// Load reads the plan file at path, with its variables resolved, and checks all
// that can be known without a cluster, the files that it names included. The
// error is a Diagnostics with every fault.
func Load(path string, in Inputs) (*Plan, error) {
	src, err := readFile(path)
	if err != nil {
		return nil, Diagnostics{{Pos: Pos{File: path}, Message: clean(err.Error())}}
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, Diagnostics{{Pos: Pos{File: path}, Message: clean(err.Error())}}
	}
	return parse(path, dir, src, in, true)
}

// Parse reads a plan from src as Load does, but does not look whether the files
// that the plan names exist. Messages call the plan file; paths in the plan are
// relative to file's folder.
func Parse(file string, src []byte, in Inputs) (*Plan, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, Diagnostics{{Pos: Pos{File: file}, Message: clean(err.Error())}}
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
	src, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
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

func parse(file, dir string, src []byte, in Inputs, onDisk bool) (*Plan, error) {
	c := &checker{plan: &Plan{File: file, Dir: dir}, budget: nearestBudget}
	s, tree, ok := readSource(file, 0, src, &c.faults)
	c.src = s
	if !ok {
		return nil, c.err()
	}
	root, isMap := tree.(map[string]any)
	if !isMap {
		c.add(s, s.valuePos(nil), "", "start with apiVersion: "+APIVersion, "expected a plan, which is a mapping, got %s", describe(tree))
		return nil, c.err()
	}
	c.tree = root
	vars := c.readVars(root, in)
	x := expander{checker: c, vars: vars}
	for _, k := range sortedKeys(root) {
		if k != "vars" {
			root[k] = x.expand(root[k], path{k})
		}
	}
	c.decode(root)
	c.checkPlan()
	if onDisk {
		c.checkFiles()
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.plan, nil
}
