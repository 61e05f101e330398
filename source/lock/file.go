package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/source"
)

// order is that of an entry's fields in the file: what is asked for, then what was found.
var order = []string{"name", "repo", "constraint", "version", "digest", "manifest"}

// sections are the lists of a lock file, in their order.
var sections = []struct {
	name string
	kind source.Kind
}{
	{"charts", source.KindChart},
	{"artifacts", source.KindArtifact},
	{"files", source.KindFile},
}

// Read reads the lock file at a path. It fails with fs.ErrNotExist when there is none, and
// with document.Diagnostics when it has faults. mask is that of File.
func Read(path string, mask func(string) string) (*File, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src, mask)
}

// Parse reads a lock file. The error is a document.Diagnostics with every fault.
func Parse(name string, src []byte, mask func(string) string) (*File, error) {
	faults := &document.Faults{}
	text, tree, ok := document.Read(name, src, document.Options{}, faults)
	if !ok {
		return nil, hinted(faults.Err())
	}
	p := &parser{Reporter: document.Reporter{Faults: faults, Source: text}, file: &File{Mask: mask}}
	p.all(tree)
	if err := faults.Err(); err != nil {
		return nil, hinted(err)
	}
	return p.file, nil
}

// hinted gives faults that have no hint of their own the way out.
func hinted(err error) error {
	faults, ok := errors.AsType[document.Diagnostics](err)
	if !ok {
		return err
	}
	for i := range faults {
		if faults[i].Hint == "" {
			faults[i].Hint = "lock files are written by kplan lock: take the version of before, or remove the file and lock the plan anew"
		}
	}
	return faults
}

// parser checks the values of a lock file.
type parser struct {
	document.Reporter
	file *File
}

func (p *parser) all(tree any) {
	root, ok := tree.(map[string]any)
	if !ok {
		p.Report(document.Fault{}, "a lock file is a mapping")
		return
	}
	for key, want := range map[string]string{"apiVersion": plan.APIVersion, "kind": Kind} {
		if got, _ := root[key].(string); got != want {
			p.Report(document.Fault{At: document.Path{key}}, "%s must be %s", key, want)
		}
	}
	known := []string{"apiVersion", "kind"}
	for _, s := range sections {
		known = append(known, s.name)
		list, ok := root[s.name].([]any)
		if !ok && root[s.name] != nil {
			p.Report(document.Fault{At: document.Path{s.name}}, "%s must be a list", s.name)
		}
		for i, item := range list {
			p.entry(s.kind, item, document.Path{s.name, i})
		}
	}
	p.unknown(root, known, nil)
}

// unknown reports fields that are not known.
func (p *parser) unknown(m map[string]any, known []string, at document.Path) {
	for key := range m {
		if !slices.Contains(known, key) {
			p.ReportField(document.Fault{At: slices.Concat(at, document.Path{key})}, "there is no field %q in a lock file", document.Cut(key, 40))
		}
	}
}

var digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// entry reads one entry.
func (p *parser) entry(kind source.Kind, item any, at document.Path) {
	m, ok := item.(map[string]any)
	if !ok {
		p.Report(document.Fault{At: at}, "an entry is a mapping")
		return
	}
	field := func(key string) document.Path { return slices.Concat(at, document.Path{key}) }
	texts := map[string]string{}
	for _, key := range order {
		text, ok := m[key].(string)
		if !ok && m[key] != nil {
			p.Report(document.Fault{At: field(key)}, "%s must be text", key)
		}
		texts[key] = text
	}
	p.unknown(m, order, at)
	needed := []string{"name", "digest"}
	if kind == source.KindChart {
		needed = append(needed, "version")
	}
	for _, key := range needed {
		if m[key] == nil || texts[key] == "" && m[key] == "" {
			p.Report(document.Fault{At: at}, "the entry has no %s", key)
		}
	}
	for _, key := range []string{"digest", "manifest"} {
		if texts[key] != "" && !digests.MatchString(texts[key]) {
			p.Report(document.Fault{At: field(key)}, "a digest is sha256: and 64 hexadecimal digits")
		}
	}
	e := Entry{
		Reference: source.Reference{Kind: kind, Repo: texts["repo"], Name: texts["name"], Version: texts["constraint"]},
		Locked:    texts["version"], Digest: texts["digest"], Manifest: texts["manifest"],
	}
	if was, twice := p.file.Find(e.Reference); twice && was != e {
		p.Report(document.Fault{At: at, Code: document.CodeDuplicate}, "%s is locked twice", e.Reference)
	}
	p.file.Put(e)
}

// Marshal returns the text of the lock file of a plan, always the same for the same
// entries.
func (f *File) Marshal(planFile string) ([]byte, error) {
	var out bytes.Buffer
	name := filepath.Base(planFile)
	fmt.Fprintf(&out, "# What %s fetches from elsewhere, by version and digest. Commit this file.\n", name)
	fmt.Fprintf(&out, "# It is written by: kplan lock %s\n", name)
	fmt.Fprintf(&out, "apiVersion: %s\nkind: %s\n", plan.APIVersion, Kind)
	all := f.Entries()
	for _, s := range sections {
		first := true
		for _, e := range all {
			if e.Kind != s.kind {
				continue
			}
			if first {
				fmt.Fprintf(&out, "%s:\n", s.name)
				first = false
			}
			if err := e.write(&out); err != nil {
				return nil, err
			}
		}
	}
	return out.Bytes(), nil
}

// write writes an entry as an item of a list, the fields in their order.
func (e Entry) write(out *bytes.Buffer) error {
	texts := map[string]string{
		"name": e.Name, "repo": e.Repo, "constraint": e.Version, "version": e.Locked, "digest": e.Digest, "manifest": e.Manifest,
	}
	lead := "- "
	for _, key := range order {
		if texts[key] == "" {
			continue
		}
		value, err := yaml.Marshal(texts[key])
		if strings.Contains(texts[key], "\n") { // one line each, whatever is in it
			value, err = json.Marshal(texts[key])
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s%s: %s\n", lead, key, strings.TrimSpace(string(value)))
		lead = "  "
	}
	return nil
}

// Write puts the file in its place as a whole.
func (f *File) Write(path, planFile string) error {
	text, err := f.Marshal(planFile)
	if err != nil {
		return err
	}
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, text) {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	// It is committed, and so for everybody.
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
