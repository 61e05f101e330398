package kustomize

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/kplan-dev/kplan/runner"
)

// maxFolders bounds how many overlays and bases one is made of.
const maxFolders = 500

// check goes through an overlay and all that it is made of, before kustomize does, and
// finds what would be fetched or run. All faults are told at once.
type check struct {
	Source
	disk *files
	seen map[string]bool // folders
	errs []error
}

// overlay checks the one in a folder, and returns its file.
func (c *check) overlay(folder string) (file string, err error) {
	if !c.disk.IsDir(folder) {
		hint := "name the folder with a kustomization.yaml in it"
		if c.disk.Exists(folder) {
			return "", runner.WithHint(fmt.Errorf("%s is no folder", c.Shown(folder)), hint)
		}
		return "", runner.WithHint(fmt.Errorf("there is no folder %s", c.Shown(folder)), hint)
	}
	c.folder(folder)
	file, _ = c.file(folder)
	return file, errors.Join(c.errs...)
}

// folder checks the overlay or base in a folder, once.
func (c *check) folder(folder string) {
	if c.seen[folder] {
		return
	}
	c.seen[folder] = true
	if len(c.seen) > maxFolders {
		if len(c.seen) == maxFolders+1 {
			c.errs = append(c.errs, fmt.Errorf("the overlay is made of more than %d folders", maxFolders))
		}
		return
	}
	file, err := c.file(folder)
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	f := &checked{check: c, file: file, folder: folder}
	for _, doc := range f.documents(file) {
		f.kustomization(doc)
	}
}

// file is the kustomization of a folder.
func (c *check) file(folder string) (string, error) {
	var found []string
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if file := filepath.Join(folder, name); c.disk.Exists(file) && !c.disk.IsDir(file) {
			found = append(found, file)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", runner.WithHint(fmt.Errorf("the folder %s has no kustomization.yaml", c.Shown(folder)), "make one: kustomize create --autodetect; or give its manifests in files")
	}
	return "", fmt.Errorf("the folder %s has several kustomizations: %s", c.Shown(folder), strings.Join([]string{filepath.Base(found[0]), filepath.Base(found[1])}, ", "))
}

// checked is one file of an overlay.
type checked struct {
	*check
	file, folder string
}

func (f *checked) documents(file string) []*yamlv3.Node {
	src, err := f.disk.ReadFile(file)
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", f.Shown(file), err))
		return nil
	}
	var docs []*yamlv3.Node
	for d := yamlv3.NewDecoder(bytes.NewReader(src)); ; {
		var doc yamlv3.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return docs
		case err != nil:
			f.errs = append(f.errs, fmt.Errorf("%s: %s", f.Shown(file), strings.TrimPrefix(err.Error(), "yaml: ")))
			return nil
		}
		docs = append(docs, doc.Content[0])
	}
}

func (f *checked) report(n *yamlv3.Node, hint, format string, args ...any) {
	f.errs = append(f.errs, runner.WithHint(fmt.Errorf("%s:%d:%d: %s", f.Shown(f.file), n.Line, n.Column, fmt.Sprintf(format, args...)), hint))
}

// kustomization checks the fields of one. Kustomize reads their names in any case
// (sigs.k8s.io/kustomize/api/types/kustomization.go, Unmarshal).
func (f *checked) kustomization(root *yamlv3.Node) {
	each(root, func(name string, value *yamlv3.Node) {
		switch folded(name) {
		case "resources", "bases", "components":
			f.entries(value, false)
		case "generators", "transformers", "validators":
			f.entries(value, true)
		case "helmcharts", "helmchartinflationgenerator", "helmglobals":
			f.report(value, "make a helm step of the chart", "%s would run the helm program, which kplan does not do", name)
		default:
			f.paths(name, value, 0)
		}
	})
}

// entries checks a list of files and folders that are part of the overlay. Those of
// plugins may stand in the list itself.
func (f *checked) entries(list *yamlv3.Node, plugins bool) {
	if list.Kind != yamlv3.SequenceNode {
		return
	}
	for _, n := range list.Content {
		switch n = meant(n); {
		case n.Kind != yamlv3.ScalarNode:
		case plugins && strings.ContainsAny(n.Value, "\n{"):
			var doc yamlv3.Node
			if yamlv3.Unmarshal([]byte(n.Value), &doc) == nil && len(doc.Content) > 0 {
				f.plugin(doc.Content[0], n)
			}
		case isRemote(n.Value):
			f.refuse(n)
		default:
			f.entry(n, plugins)
		}
	}
}

const remoteHint = "copy it into the project, such as with: kustomize localize; an https address of manifests can stand in files of a step"

func (f *checked) refuse(n *yamlv3.Node) {
	f.report(n, remoteHint, "%q would be fetched from elsewhere, which an overlay must not do here", n.Value)
}

func (f *checked) entry(n *yamlv3.Node, plugins bool) {
	path := filepath.Join(f.folder, n.Value)
	if filepath.IsAbs(n.Value) {
		path = filepath.Clean(n.Value)
	}
	switch {
	case f.disk.IsDir(path):
		f.check.folder(path)
	case !f.disk.Exists(path):
		f.report(n, "paths are relative to the folder of the kustomization", "there is no file or folder %q", n.Value)
	case plugins:
		for _, doc := range f.documents(path) {
			f.plugin(doc, n)
		}
	}
}

// plugin checks the configuration of a generator or transformer. at is where the
// kustomization names it.
func (f *checked) plugin(n, at *yamlv3.Node) {
	each(n, func(name string, value *yamlv3.Node) {
		if folded(name) == "kind" && strings.HasPrefix(value.Value, "HelmChart") {
			f.report(at, "make a helm step of the chart", "%s would run the helm program, which kplan does not do", value.Value)
		}
		f.paths(name, value, 0)
	})
}

// pathFields are the fields of a kustomization, and of what is in it, that name files,
// folded.
var pathFields = map[string]bool{
	"path": true, "files": true, "env": true, "envs": true, "crds": true, "configurations": true, "patchesstrategicmerge": true, "paths": true,
}

// folded is a name of a field in the one form of all that kustomize takes for it:
// encoding/json minds no case when it looks for a field, by Unicode's simple folding.
func folded(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// paths checks the fields below one that name files which kustomize would fetch.
func (f *checked) paths(name string, n *yamlv3.Node, depth int) {
	if depth > maxDepth {
		f.report(n, "", "it is nested more than %d deep", maxDepth)
		return
	}
	switch n = meant(n); n.Kind {
	case yamlv3.ScalarNode:
		if !pathFields[folded(name)] || strings.Contains(n.Value, "\n") {
			return
		}
		value := n.Value
		if _, path, keyed := strings.Cut(value, "="); keyed && folded(name) == "files" { // KEY=PATH
			value = path
		}
		if isRemote(value) {
			f.refuse(n)
		}
	case yamlv3.SequenceNode:
		for _, item := range n.Content {
			f.paths(name, item, depth+1)
		}
	case yamlv3.MappingNode:
		each(n, func(name string, value *yamlv3.Node) { f.paths(name, value, depth+1) })
	default: // a document is none of these, and an alias stands for one
	}
}

// maxDepth bounds how deep a kustomization is looked into: an alias can stand for what
// it is in.
const maxDepth = 50

// each calls do with the fields of a mapping, those that are merged into it included.
func each(n *yamlv3.Node, do func(name string, value *yamlv3.Node)) { eachBelow(n, 0, do) }

func eachBelow(n *yamlv3.Node, depth int, do func(name string, value *yamlv3.Node)) {
	if n.Kind != yamlv3.MappingNode || depth > maxDepth {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := meant(n.Content[i]), meant(n.Content[i+1])
		switch {
		case key.ShortTag() != "!!merge":
			do(key.Value, value)
		case value.Kind == yamlv3.SequenceNode:
			for _, merged := range value.Content {
				eachBelow(meant(merged), depth+1, do)
			}
		default:
			eachBelow(value, depth+1, do)
		}
	}
}

// meant is what an alias stands for, and any other node itself.
func meant(n *yamlv3.Node) *yamlv3.Node {
	for n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	return n
}

// remote is what kustomize takes for an address: of a web server, or of a repository of
// git, which it looks for before it looks for a folder (api/internal/git/repospec.go).
var remote = regexp.MustCompile(`(?i)^(git::)?([a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:])|^git::`)

func isRemote(path string) bool { return remote.MatchString(strings.TrimSpace(path)) }
