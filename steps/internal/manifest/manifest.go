// Package manifest reads the objects that a step sends, from its files, from the plan
// and from its chart: for the step itself, and for what is known of it beforehand.
//
// It asks no cluster, and gets no chart: package charts does.
package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
)

// maxFileBytes bounds one file: larger ones are not manifests.
const maxFileBytes = 64 << 20

// Object is an object that a step sends, with the place that it was read from.
type Object struct {
	*unstructured.Unstructured
	// Source says where it was read, for errors: "store.yaml:9: document 2", or
	// "objects[0]"; it is empty for one of a chart.
	Source string
	// File is the absolute path of its file; empty for an object that stands in the
	// plan.
	File string
	// Document is the YAML document of the file that has the object, and Line the
	// line of the file, counted from 1, that it begins with.
	Document []byte
	Line     int
	// At is the object's path in the document, or among the step's objects.
	At []any
}

// Kind returns the object's kind without its version.
func (o Object) Kind() schema.GroupKind { return o.GroupVersionKind().GroupKind() }

// ID names the object as events do: Kind/namespace/name.
func (o Object) ID() string {
	if ns := o.GetNamespace(); ns != "" {
		return o.GetKind() + "/" + ns + "/" + o.GetName()
	}
	return o.GetKind() + "/" + o.GetName()
}

// Of reads the objects that a step sends as far as they are known without its
// cluster; chart is that of a helm step, and has what it may ask about the cluster.
func Of(ctx context.Context, step plan.Step, chart *charts.Chart, has charts.Capabilities) ([]Object, error) {
	switch {
	case step.Apply != nil:
		return Objects(step)
	case chart == nil:
		return nil, nil
	}
	rendered, err := chart.Render(ctx, has)
	return Placeless(rendered), err
}

// Placeless returns objects that stand in no file, such as those of a chart.
func Placeless(bare []*unstructured.Unstructured) []Object {
	objects := make([]Object, len(bare))
	for i, u := range bare {
		objects[i].Unstructured = u
	}
	return objects
}

// Planned reads the objects that a step sends as far as they are known without
// any cluster: a chart is rendered for the default namespace.
func Planned(ctx context.Context, step plan.Step) (_ []Object, err error) {
	var chart *charts.Chart
	if step.Helm != nil {
		if chart, err = charts.New(step, metav1.NamespaceDefault); err != nil {
			return nil, err
		}
	}
	return Of(ctx, step, chart, charts.Capabilities{})
}

// Bare returns objects without their places.
func Bare(objects []Object) []*unstructured.Unstructured {
	bare := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		bare[i] = o.Unstructured
	}
	return bare
}

// Objects reads the objects that an apply step sends; those that name no
// namespace get the step's, if it has one. The cluster is not asked, so this
// includes objects of kinds without namespaces. Those that can be read are given
// even if others cannot.
func Objects(step plan.Step) ([]Object, error) {
	objects, err := Read(step)
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(step.Apply.Namespace)
		}
	}
	return objects, err
}

// Read reads the objects of an apply or delete step as they are written.
func Read(step plan.Step) ([]Object, error) {
	var names []string
	var objects []map[string]any
	switch {
	case step.Apply != nil:
		names, objects = step.Apply.Files, step.Apply.Objects
	case step.Delete != nil:
		names, objects = step.Delete.Files, step.Delete.Objects
	}
	files, err := step.Files(names)
	if err != nil {
		return nil, err
	}
	manifests, err := readFiles(files, step.Dir)
	own, inlineErr := inline(objects)
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
			m.File = name
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
			m.Document, m.Line = doc.text, doc.begin
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
			m.At = append([]any{i}, m.At...)
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
				m.At = append([]any{"items", i}, m.At...)
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
		k := key{m.Kind(), cmp.Or(m.GetNamespace(), namespace), m.GetName()}
		if before, ok := first[k]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is given twice, first in %s", m.Source, m.ID(), before))
			continue
		}
		first[k] = m.Source
	}
	return errors.Join(errs...)
}
