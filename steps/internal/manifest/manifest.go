// Package manifest reads the objects that a step sends, from its files, from the plan
// and from its chart: for the step itself, and for what is known of it beforehand.
//
// It asks no cluster, and gets neither charts nor texts: package charts and package
// source do.
package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
)

// Object is an object that a step sends, with the place that it was read from.
type Object struct {
	*unstructured.Unstructured
	// Source says where it was read, for errors: "store.yaml:9: document 2", or
	// "objects[0]"; it is empty for one of a chart.
	Source string
	// File is the absolute path of its file; empty for an object that is in none.
	File string
	// Field is the field of the step that names what the object comes from; nil for one
	// that stands in the plan.
	Field []any
	// Document is the YAML document of the file that has the object, as it is written
	// there, and Line the line of the file, counted from 1, that it begins with.
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
// cluster, from a store; chart is that of a helm step, and has what it may ask about
// the cluster.
func Of(ctx context.Context, step plan.Step, from *source.Store, chart *charts.Chart, has charts.Capabilities) ([]Object, error) {
	switch {
	case step.Apply != nil:
		return Objects(ctx, step, from)
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
func Planned(ctx context.Context, step plan.Step, from *source.Store) (_ []Object, err error) {
	var chart *charts.Chart
	if step.Helm != nil {
		if chart, err = charts.New(step, metav1.NamespaceDefault, from); err != nil {
			return nil, err
		}
	}
	return Of(ctx, step, from, chart, charts.Capabilities{})
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
func Objects(ctx context.Context, step plan.Step, from *source.Store) ([]Object, error) {
	objects, err := Read(ctx, step, from)
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(step.Apply.Namespace)
		}
	}
	return objects, err
}

// Read reads the objects of an apply or delete step as they are written. A nil store
// reads files only, and as they are. What another attempt cannot mend is permanent.
func Read(ctx context.Context, step plan.Step, from *source.Store) ([]Object, error) {
	var inPlan []map[string]any
	switch {
	case step.Apply != nil:
		inPlan = step.Apply.Objects
	case step.Delete != nil:
		inPlan = step.Delete.Objects
	}
	texts, err := from.Manifests(ctx, step)
	var (
		all  []Object
		errs = []error{err}
	)
	for _, t := range texts {
		found, err := decode(t)
		errs = append(errs, runner.Permanent(err))
		all = append(all, found...)
	}
	own, err := inline(inPlan)
	return append(all, own...), errors.Join(append(errs, runner.Permanent(err))...)
}

// decode reads the documents of one YAML or JSON text. Documents that hold
// nothing are passed over, lists taken apart. All faults are told at once.
func decode(t source.Text) ([]Object, error) {
	var (
		out  []Object
		errs []error
	)
	docs := document.Split(bytes.TrimPrefix(t.Bytes, []byte("\ufeff")))
	written := docs
	if t.Written != nil {
		if w := document.Split(bytes.TrimPrefix(t.Written, []byte("\ufeff"))); len(w) == len(docs) {
			written = w
		}
	}
	for i, doc := range docs {
		source := fmt.Sprintf("%s:%d: document %d", t.Name, doc.Line, i+1)
		found, err := decodeDocument(doc, source)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		for _, m := range found {
			m.File, m.Field = t.File, t.Field
			if m.File != "" {
				m.Document, m.Line = written[i].Text, written[i].Begin
			}
			out = append(out, m)
		}
	}
	return out, errors.Join(errs...)
}

func decodeDocument(doc document.Part, source string) ([]Object, error) {
	if doc.Line == 0 {
		return nil, nil
	}
	raw, err := yaml.YAMLToJSONStrict(doc.Text)
	if err != nil {
		// Once more with the lines before it, so that the error has the file's lines.
		_, err = yaml.YAMLToJSONStrict(append(bytes.Repeat([]byte("\n"), doc.Begin-1), doc.Text...))
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
