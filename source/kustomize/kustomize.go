// Package kustomize builds overlays as kustomize does, by its own library, from a
// folder or from files in memory.
//
// It fetches nothing and runs no program: overlays that name resources elsewhere, in
// git or on a web server, are refused at their line, as are plugins, functions and the
// inflation of Helm charts. Files outside of an overlay's folder cannot be read, but
// for other overlays, as kustomize has it.
package kustomize

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kplan-dev/kplan/runner"
)

// Source is where an overlay is.
type Source struct {
	// Folder is the overlay's: absolute, or below the root of Files.
	Folder string
	// Files, when not nil, are all files that there are, by their paths, which start with a
	// slash; without them the disk is read.
	Files map[string][]byte
	// Open, when set, is given each file that is read and returns its content, such as what
	// is encrypted in it.
	Open func(file string, src []byte) ([]byte, error)
	// Shown returns what errors call a file (default its path).
	Shown func(file string) string
}

// Built is an overlay that was built.
type Built struct {
	// YAML has the objects, a document each, in kustomize's order.
	YAML []byte
	// File is the path of the overlay's kustomization.yaml, or what it is called.
	File string
	// Files are the paths of all files that were read, in the order of reading.
	Files []string
}

// building keeps builds apart: kustomize has the schema that it merges by in variables of
// its packages.
var building sync.Mutex

// Build builds an overlay. Errors are permanent, and have hints where there is something to
// say.
func Build(s Source) (Built, error) {
	if s.Shown == nil {
		s.Shown = func(file string) string { return file }
	}
	disk := &files{FileSystem: filesys.MakeFsOnDisk(), open: s.Open, seen: map[string]bool{}}
	if s.Files != nil {
		disk.FileSystem = filesys.MakeFsInMemory()
		for name, src := range s.Files {
			if err := disk.WriteFile(name, src); err != nil {
				return Built{}, runner.Permanent(fmt.Errorf("%s: %w", s.Shown(name), err))
			}
		}
	}
	c := check{Source: s, disk: disk, seen: map[string]bool{}}
	file, err := c.overlay(filepath.Clean(s.Folder))
	if err != nil {
		return Built{}, runner.Permanent(err)
	}
	yaml, err := build(disk, s.Folder)
	if disk.fault != nil { // the library keeps only its text
		err = disk.fault
	}
	if err != nil {
		return Built{}, runner.WithHint(runner.Permanent(fmt.Errorf("%s: %s", s.Shown(file), plain(err, s))), hintOf(err))
	}
	return Built{YAML: yaml, File: file, Files: disk.read}, nil
}

// build runs the library, which panics on some overlays.
func build(disk filesys.FileSystem, folder string) (yaml []byte, err error) {
	building.Lock()
	defer building.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kustomize fails on it: %v\n%s", r, debug.Stack())
		}
	}()
	// The defaults keep an overlay's files in its folder, and plugins off.
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, folder)
	if err != nil {
		return nil, err
	}
	return objects.AsYaml()
}

// plain is the text of an error of the library, with paths as people know them.
func plain(err error, s Source) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if root := filepath.Dir(filepath.Clean(s.Folder)); root != "/" {
		text = strings.ReplaceAll(text, root+string(filepath.Separator), "")
	}
	return text
}

func hintOf(err error) string {
	if hint := runner.HintOf(err); hint != "" {
		return hint
	}
	switch text := err.Error(); {
	case strings.Contains(text, "security; file"):
		return "an overlay reads no file outside of its folder: move it there, or make the other folder a base in resources"
	case strings.Contains(text, "plugins are disabled") || strings.Contains(text, "plugins disabled"):
		return "kplan runs no plugins: build the overlay yourself and give the result in files"
	case strings.Contains(text, "no matches for Id"):
		return "a patch must name an object of the overlay, by the name that it has in its base"
	}
	return "see what kustomize says of it: kubectl kustomize FOLDER"
}

// files are those that kustomize sees. It uses them one at a time.
type files struct {
	filesys.FileSystem
	open  func(file string, src []byte) ([]byte, error)
	read  []string
	seen  map[string]bool
	fault error
}

// ReadFile returns what a file holds, decrypted if it was encrypted.
func (f *files) ReadFile(name string) ([]byte, error) {
	src, err := f.FileSystem.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if !f.seen[name] {
		f.seen[name] = true
		f.read = append(f.read, name)
	}
	if f.open == nil {
		return src, nil
	}
	if src, err = f.open(name, src); err != nil && f.fault == nil {
		f.fault = err
	}
	return src, err
}
