// Package manifest reads the objects that a step sends from its files and from the
// plan, each with the place where it stands.
//
// It asks no cluster and renders no chart.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// maxFileBytes bounds one file: larger ones are not manifests.
const maxFileBytes = 64 << 20

// Object is one object to apply.
type Object struct {
	*unstructured.Unstructured
	// Source says where it was read, for errors: "store.yaml:9: document 2".
	Source string

	// file is the path of the file, "" for an object of the plan; doc is the document
	// in it, and at the object's path in that, or among the step's objects.
	file string
	doc  document
	at   []any
}

func (m Object) Kind() schema.GroupKind { return m.GroupVersionKind().GroupKind() }

// ID names the object as events do: Kind/namespace/name.
func (m Object) ID() string {
	if ns := m.GetNamespace(); ns != "" {
		return m.GetKind() + "/" + ns + "/" + m.GetName()
	}
	return m.GetKind() + "/" + m.GetName()
}

// Sources tells where each of Objects was read, in the same order: "store.yaml:9:
// document 2", or "objects[0]".
func Sources(p *plan.Plan, spec plan.Apply) ([]string, error) {
	manifests, err := Read(p, spec)
	sources := make([]string, len(manifests))
	for i, m := range manifests {
		sources[i] = m.Source
	}
	return sources, err
}

// Objects reads the objects that an apply step of p sends; those that name no
// namespace get the step's, if it has one. The cluster is not asked, so this
// includes objects of kinds without namespaces.
func Objects(p *plan.Plan, spec plan.Apply) ([]*unstructured.Unstructured, error) {
	manifests, err := Read(p, spec)
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, len(manifests))
	for i, m := range manifests {
		objects[i] = m.Unstructured
		if m.GetNamespace() == "" {
			m.SetNamespace(spec.Namespace)
		}
	}
	return objects, nil
}

// Read reads the manifests of an apply step.
func Read(p *plan.Plan, spec plan.Apply) ([]Object, error) {
	files, err := p.ApplyFiles(spec)
	if err != nil {
		return nil, err
	}
	manifests, err := readFiles(files, p.Dir)
	own, inlineErr := inline(spec.Objects)
	return append(manifests, own...), errors.Join(err, inlineErr)
}

// readFiles reads the manifests of files, in order. Paths in errors are
// relative to dir where that is shorter.
func readFiles(files []string, dir string) ([]Object, error) {
	var (
		out  []Object
		errs []error
	)
	for _, name := range files {
		shown := name
		if rel, err := filepath.Rel(dir, name); err == nil && len(rel) < len(name) {
			shown = rel
		}
		f, err := os.Open(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := decode(io.LimitReader(f, maxFileBytes+1), shown)
		errs = append(errs, err, f.Close())
		for _, m := range found {
			m.file = name
			out = append(out, m)
		}
	}
	return out, errors.Join(errs...)
}

// decode reads the documents of one YAML or JSON file. Documents that hold
// nothing are passed over, lists taken apart. All faults are told at once.
func decode(r io.Reader, name string) ([]Object, error) {
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > maxFileBytes {
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxFileBytes>>20)
	}
	var (
		out  []Object
		errs []error
	)
	for i, doc := range split(bytes.TrimPrefix(src, []byte("\ufeff"))) {
		source := fmt.Sprintf("%s:%d: document %d", name, doc.line, i+1)
		found, err := decodeDocument(doc, source)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		for _, m := range found {
			m.doc = doc
			out = append(out, m)
		}
	}
	return out, errors.Join(errs...)
}

// document is one document of a file.
type document struct {
	text  []byte
	begin int // the line of the file that text begins with
	line  int // the first line with something in it
}

// split takes the documents of a YAML file apart. Empty ones count, as readers
// count them, but what comes before the first separator does only when it is
// something. Three dashes separate at the start of a line, where no text of a
// document can have them.
func split(src []byte) []document {
	docs := []document{{begin: 1}}
	for n, text := range bytes.SplitAfter(src, []byte("\n")) {
		bare := bytes.TrimRight(text, " \t\r\n")
		rest, dashes := bytes.CutPrefix(text, []byte("---"))
		if dashes && (len(bare) == 3 || rest[0] == ' ' || rest[0] == '\t') || string(bare) == "..." {
			docs = append(docs, document{begin: n + 1})
			text = append([]byte("   "), text[3:]...)
			bare = bytes.TrimSpace(text)
		}
		d := &docs[len(docs)-1]
		blank := len(bytes.TrimSpace(bare)) == 0 || bytes.TrimSpace(bare)[0] == '#' || d.line == 0 && bare[0] == '%'
		switch {
		case blank && d.line == 0 && len(bytes.TrimSpace(bare)) > 0 && bytes.TrimSpace(bare)[0] == '#':
		case blank && d.line == 0:
			text = []byte("\n") // directives too: the parser wants dashes after them
		case d.line == 0:
			d.line = n + 1
		}
		d.text = append(d.text, text...)
	}
	if docs[0].line == 0 {
		docs = docs[1:]
	}
	return docs
}

func decodeDocument(doc document, source string) ([]Object, error) {
	if doc.line == 0 {
		return nil, nil
	}
	raw, err := yaml.YAMLToJSONStrict(doc.text)
	if err != nil {
		// Once more with the lines before it, so that the error has the file's lines.
		_, err = yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), doc.begin-1), doc.text...))
		return nil, plainYAML(err)
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("is not an object with apiVersion and kind")
	}
	return expand(fields, source)
}

// plainYAML leaves out what the YAML libraries say about themselves.
func plainYAML(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n"} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// inline takes the objects that the plan itself holds.
func inline(objects []map[string]any) ([]Object, error) {
	var (
		out  []Object
		errs []error
	)
	for i, fields := range objects {
		source := fmt.Sprintf("objects[%d]", i)
		// By way of JSON the numbers become those that Kubernetes' own decoder makes.
		raw, err := json.Marshal(fields)
		var copied map[string]any
		if err == nil {
			err = json.Unmarshal(raw, &copied)
		}
		var found []Object
		if err == nil {
			found, err = expand(copied, source)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		for _, m := range found {
			m.at = append([]any{i}, m.at...)
			out = append(out, m)
		}
	}
	return out, errors.Join(errs...)
}

// expand takes lists apart, and refuses what cannot be applied.
func expand(fields map[string]any, source string) ([]Object, error) {
	u := &unstructured.Unstructured{Object: fields}
	if strings.HasSuffix(u.GetKind(), "List") && u.IsList() {
		var (
			out  []Object
			errs []error
		)
		items, _ := fields["items"].([]any)
		for i, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				errs = append(errs, fmt.Errorf("items[%d] is not an object", i))
				continue
			}
			found, err := expand(m, fmt.Sprintf("%s, items[%d]", source, i))
			if err != nil {
				errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
			}
			for _, m := range found {
				m.at = append([]any{"items", i}, m.at...)
				out = append(out, m)
			}
		}
		return out, errors.Join(errs...)
	}
	if err := check(u); err != nil {
		return nil, err
	}
	u.SetManagedFields(nil) // the API server refuses them in an apply
	return []Object{{Unstructured: u, Source: source}}, nil
}

func check(u *unstructured.Unstructured) error {
	meta, ok := u.Object["metadata"].(map[string]any)
	text := func(key string) string { s, _ := meta[key].(string); return s }
	switch {
	case u.GetAPIVersion() == "" && u.GetKind() == "":
		return errors.New("has neither apiVersion nor kind: is it a Kubernetes object?")
	case u.GetAPIVersion() == "":
		return fmt.Errorf("%s has no apiVersion", u.GetKind())
	case u.GetKind() == "":
		return errors.New("has no kind")
	case !ok && u.Object["metadata"] != nil:
		return fmt.Errorf("%s: metadata is not an object", u.GetKind())
	case text("name") == "" && text("generateName") != "":
		return runner.WithHint(fmt.Errorf("%s has generateName, but no name", u.GetKind()),
			"server-side apply needs a name: it decides whether the object is already there")
	case text("name") == "" && meta["name"] != nil:
		return fmt.Errorf("%s: metadata.name is not a text; quote it", u.GetKind())
	case text("name") == "":
		return fmt.Errorf("%s has no metadata.name", u.GetKind())
	case text("namespace") == "" && meta["namespace"] != nil && meta["namespace"] != "":
		return fmt.Errorf("%s %s: metadata.namespace is not a text; quote it", u.GetKind(), text("name"))
	}
	if _, err := schema.ParseGroupVersion(u.GetAPIVersion()); err != nil {
		return fmt.Errorf("%s %s: apiVersion %q is malformed", u.GetKind(), text("name"), u.GetAPIVersion())
	}
	return nil
}

// CheckDuplicates refuses two manifests of one object: which would win is
// chance. namespace is that of objects which name none.
func CheckDuplicates(ms []Object, namespace string) error {
	type key struct {
		schema.GroupKind
		namespace, name string
	}
	first := map[key]string{}
	var errs []error
	for _, m := range ms {
		k := key{m.Kind(), m.GetNamespace(), m.GetName()}
		if k.namespace == "" {
			k.namespace = namespace
		}
		if before, ok := first[k]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is given twice, first in %s", m.Source, m.ID(), before))
			continue
		}
		first[k] = m.Source
	}
	return errors.Join(errs...)
}
