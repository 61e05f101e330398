package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/source/kustomize"
)

// input reads the files of the command line.
func (r *importRun) input(args []string) (foreign.Input, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return foreign.Input{}, err
	}
	in := foreign.Input{Root: filepath.ToSlash(root), Dir: filepath.ToSlash(filepath.Dir(r.output)), Name: r.name, Read: readBounded, Build: buildOverlay}
	var names []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if arg == "-" || err != nil || !info.IsDir() {
			names = append(names, arg)
			continue
		}
		if r.folder == nil {
			return in, usagef("%s is a folder: name the files", arg)
		}
		found, err := r.folder(arg)
		if err != nil {
			return in, &usageError{err: err}
		}
		names = append(names, slices.DeleteFunc(found, r.isPlan)...)
	}
	local := filepath.IsLocal(filepath.Dir(r.output)) && !slices.ContainsFunc(names, func(n string) bool { return n != "-" && !filepath.IsLocal(n) })
	if !local { // paths in the plan are found out by those from the root
		dir, err := filepath.Abs(filepath.Dir(r.output))
		if err != nil {
			return in, err
		}
		in.Dir = filepath.ToSlash(dir)
	}
	for _, name := range names {
		f, err := r.file(name, local)
		if err != nil {
			return in, err
		}
		in.Files = append(in.Files, f)
	}
	return in, nil
}

// isPlan reports whether a file that was found in a folder is a plan, such as one that was
// imported before, and says that it is left out.
func (r *importRun) isPlan(name string) bool {
	text, err := readBounded(name)
	if err != nil || !ownFile.Match(text) {
		return false
	}
	fmt.Fprintf(r.stderr, "note: %s is left out: it is a plan of kplan\n", words.Clean(name))
	return true
}

// ownFile matches the files of kplan itself.
var ownFile = regexp.MustCompile(`(?m)^apiVersion:\s*["']?kplan\.dev/`)

// file reads a file of the command line. Its name is absolute unless all are local.
func (r *importRun) file(name string, local bool) (foreign.File, error) {
	f := foreign.File{Name: filepath.ToSlash(filepath.Clean(name))}
	var err error
	if name == "-" {
		f.Name = "stdin"
		f.Data, err = io.ReadAll(io.LimitReader(r.stdin, document.MaxSize+1))
	} else {
		f.Data, err = readBounded(name)
	}
	if err != nil {
		return f, &usageError{err: err}
	}
	if !local {
		full, err := filepath.Abs(filepath.FromSlash(f.Name))
		if err != nil {
			return f, err
		}
		f.Name = filepath.ToSlash(full)
	}
	return f, nil
}

// readBounded reads a file that is no larger than what plans may be, or a byte more.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, document.MaxSize+1))
}

// buildOverlay returns what kustomize makes of a folder. It fetches nothing, and runs no
// plugin.
func buildOverlay(dir string) ([]byte, error) {
	full, err := filepath.Abs(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	built, err := kustomize.Build(kustomize.Source{Folder: full, Shown: func(file string) string {
		if rest, err := filepath.Rel(full, file); err == nil {
			return path.Join(dir, filepath.ToSlash(rest))
		}
		return file
	}})
	return built.YAML, err
}

// helmfileFolder returns what helmfile takes of a folder, in its order of preference.
func helmfileFolder(dir string) ([]string, error) {
	for _, name := range []string{"helmfile.yaml", "helmfile.yaml.gotmpl"} {
		if file := filepath.Join(dir, name); fileExists(file) {
			return []string{file}, nil
		}
	}
	if filepath.Base(dir) != "helmfile.d" {
		dir = filepath.Join(dir, "helmfile.d")
	}
	var all []string
	for _, pattern := range []string{"*.yaml", "*.yaml.gotmpl"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no helmfile.yaml", filepath.Dir(dir))
	}
	slices.Sort(all)
	return all, nil
}

func fileExists(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// objectFolder returns the YAML files below a folder, in the order of their names.
func objectFolder(dir string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != dir && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if ext := filepath.Ext(name); d.Type().IsRegular() && (ext == ".yaml" || ext == ".yml") {
			all = append(all, name)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no YAML file", dir)
	}
	return all, err
}
