package helmfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
)

// layer is one part of a release's values; a later one wins.
type layer struct {
	// file is a path as the plan has it; "" for values.
	file   string
	values *yaml.Node
}

// values takes the values of the release, in the order in which helmfile gives them to
// helm: valuesTemplate, values, secrets, set.
func (s *scope) values() {
	var layers []layer
	for _, name := range []string{"valuesTemplate", "values", "secrets"} {
		for _, item := range s.v.Get(name).Items() {
			if l, ok := s.layer(item, name); ok {
				layers = append(layers, l)
			}
		}
	}
	last := -1
	for i, l := range layers {
		if l.file != "" {
			last = i
		}
	}
	var files []string
	var values *yaml.Node
	for i, l := range layers {
		switch {
		case l.file != "":
			files = append(files, l.file)
		case i < last: // values of a plan win over all files, these do not
			files = append(files, s.keepValues(l.values))
		default:
			values = foreign.Merge(values, l.values)
		}
	}
	for _, name := range []string{"set", "setTemplate", "setString"} {
		for _, item := range s.v.Get(name).Items() {
			values = s.set(values, item, name == "setString")
		}
	}
	f := &s.step.Fields
	f.Set("values_files", files)
	if values != nil {
		f.Set("values", values)
	}
	if fileSet := s.fileSet(); fileSet != nil {
		f.Set("set_file", fileSet)
	}
}

// layer is one item of the list of values called field. Helmfile renders values within
// valuesTemplate alone (pkg/state/release.go, ExecuteTemplateExpressions).
func (s *scope) layer(item *foreign.Value, field string) (l layer, ok bool) {
	if item.IsMap() {
		n := item.Node()
		if field == "valuesTemplate" {
			s.expandAll(n)
		}
		s.dropUnknown(n)
		if field == "secrets" {
			return layer{values: s.plan.ConcealAll(s.release.name, n, item)}, true
		}
		return layer{values: s.plan.Conceal(s.release.name, n, item)}, true
	}
	name := s.text(item)
	if name == "" {
		return l, false
	}
	switch {
	case strings.HasSuffix(name, ".gotmpl"):
		item.Lost(build+"; or write its values with ${{ vars.NAME }} and evaluate: true", "%s is a template, and its values are not in the plan", name)
	case strings.Contains(name, "::"), strings.Contains(name, "://"):
		item.Lost("fetch it and name the file in values_files", "the values of %s are fetched by helmfile, and are not in the plan", name)
	case strings.ContainsAny(name, "*?["):
		item.Lost("name the files in values_files", "the files that match %s are not in the plan", name)
	case foreign.HasExpr(name):
		return layer{file: s.path(s.prefixed(name))}, true
	default:
		full := foreign.Beside(s.name, s.prefixed(name))
		data, err := s.in.Read(full)
		if errors.Is(err, fs.ErrNotExist) {
			item.Lost("make it and name it in values_files", "there is no file %s, and its values are not in the plan", name)
			s.step.Comments = append(s.step.Comments, "values_files had "+name+", which was not there.")
			return l, false
		}
		if foreign.IsLookedUp(string(data)) {
			item.Lost("write ${{ vars.NAME }} in the place of each, and give the step evaluate: true", "%s has references of vals, such as ref+vault://…, which nobody looks up", name)
		}
		return layer{file: s.path(s.prefixed(name))}, true
	}
	return l, false
}

// prefixed is a path with the release's valuesPathPrefix.
func (s *scope) prefixed(name string) string { return s.v.Get("valuesPathPrefix").Text() + name }

// expandAll puts fields of the release into all texts.
func (s *scope) expandAll(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Value = s.expand(n.Value)
	}
	for _, x := range n.Content {
		s.expandAll(x)
	}
}

// dropUnknown takes values away that depend on what cannot be rendered. What they were
// was told where the template stands.
func (s *scope) dropUnknown(n *yaml.Node) {
	var kept []*yaml.Node
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k, v := n.Content[i], n.Content[i+1]; !hasUnknown(k.Value) && !hasUnknown(v.Value) {
				kept = append(kept, k, v)
			}
		}
	case yaml.SequenceNode:
		for _, v := range n.Content {
			if !hasUnknown(v.Value) {
				kept = append(kept, v)
			}
		}
	default:
		return
	}
	n.Content = kept
	for _, x := range n.Content {
		s.dropUnknown(x)
	}
}

// keepValues notes values for a file beside the plan, and returns its path.
func (s *scope) keepValues(n *yaml.Node) string {
	name := ""
	for i := 1; name == "" || s.written[name]; i++ {
		name = fmt.Sprintf("values/%s-%d.yaml", s.step.Name, i)
	}
	s.written[name] = true
	s.valueFiles = append(s.valueFiles, &valueFile{name, n, s.step})
	if len(foreign.ReadBy(n)) > 0 {
		s.step.Fields.Set("evaluate", true)
	}
	return "./" + name
}

// writeValueFiles writes what keepValues noted.
func (im *importer) writeValueFiles() error {
	for _, f := range im.valueFiles {
		data, err := foreign.Text(f.values, f.step.Fields.Value("evaluate") != nil)
		if err != nil {
			return err
		}
		im.result.Files = append(im.result.Files, foreign.File{Name: f.name, Data: data})
	}
	return nil
}

// set puts one item of set over the values.
func (s *scope) set(values *yaml.Node, item *foreign.Value, asText bool) *yaml.Node {
	name := s.text(item.Get("name"))
	if name == "" || item.Get("file").Given() {
		return values // a file is for fileSet
	}
	path, ok := foreign.SetPath(name)
	if !ok {
		item.Lost("write the list out in values", "set of %s is not imported: a plan sets no single item of a list", document.Cut(name, 80))
		return values
	}
	var n *yaml.Node
	if list := item.Get("values"); list.IsList() {
		n = &yaml.Node{Kind: yaml.SequenceNode}
		for _, v := range list.Items() {
			n.Content = append(n.Content, s.scalar(v, asText))
		}
	} else if v := item.Get("value"); v != nil {
		if hasUnknown(v.Peek()) {
			v.Lost(build, "the value of %s depends on a template", name)
			return values
		}
		n = s.scalar(v, asText)
	} else {
		return values
	}
	return foreign.Merge(values, s.plan.Conceal(s.release.name, foreign.Nest(path, n), item))
}

// fileSet are the values that files give.
func (s *scope) fileSet() map[string]string {
	var all map[string]string
	for _, item := range s.v.Get("set").Items() {
		name, file := s.text(item.Get("name")), s.text(item.Get("file"))
		if name == "" || file == "" {
			continue
		}
		if _, err := s.in.Read(foreign.Beside(s.name, file)); errors.Is(err, fs.ErrNotExist) && !foreign.HasExpr(file) {
			item.Lost("make it and name it in set_file", "there is no file %s for %s", file, name)
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = s.path(file)
	}
	return all
}

// scalar is a value as helm --set reads it, or as --set-string does.
func (s *scope) scalar(v *foreign.Value, asText bool) *yaml.Node {
	n := foreign.Scalar(v, s.expand(v.Text()))
	if asText {
		return n
	}
	return foreign.Typed(n)
}
