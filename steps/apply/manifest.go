package apply

import (
	"bufio"
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
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/runner"
)

// maxFileBytes bounds one file: larger ones are not manifests.
const maxFileBytes = 64 << 20

// manifest is one object to apply.
type manifest struct {
	object *unstructured.Unstructured
	// source says where it was read, for errors: "store.yaml: document 2".
	source string
}

func (m manifest) kind() schema.GroupKind { return m.object.GroupVersionKind().GroupKind() }

// id names the object as events do: Kind/namespace/name.
func (m manifest) id() string {
	if ns := m.object.GetNamespace(); ns != "" {
		return m.object.GetKind() + "/" + ns + "/" + m.object.GetName()
	}
	return m.object.GetKind() + "/" + m.object.GetName()
}

// readFiles reads the manifests of files, in order. Paths in errors are
// relative to dir where that is shorter.
func readFiles(files []string, dir string) ([]manifest, error) {
	var (
		out  []manifest
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
		out = append(out, found...)
	}
	return out, errors.Join(errs...)
}

// decode reads the documents of one YAML or JSON file. Documents that hold
// nothing are passed over, lists taken apart. All faults are told at once.
func decode(r io.Reader, name string) ([]manifest, error) {
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > maxFileBytes {
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxFileBytes>>20)
	}
	var (
		out  []manifest
		errs []error
	)
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(src, []byte("\ufeff")))))
	for n := 1; ; n++ {
		source := fmt.Sprintf("%s: document %d", name, n)
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, errors.Join(errs...)
		}
		if err != nil {
			return out, errors.Join(append(errs, fmt.Errorf("%s: %w", source, err))...)
		}
		found, err := decodeDocument(doc, source)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		out = append(out, found...)
	}
}

func decodeDocument(doc []byte, source string) ([]manifest, error) {
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, plainYAML(err)
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil // nothing but comments
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
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	return errors.New(strings.TrimPrefix(text, "yaml: "))
}

// inline takes the objects that the plan itself holds.
func inline(objects []map[string]any) ([]manifest, error) {
	var (
		out  []manifest
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
		var found []manifest
		if err == nil {
			found, err = expand(copied, source)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		out = append(out, found...)
	}
	return out, errors.Join(errs...)
}

// expand takes lists apart, and refuses what cannot be applied.
func expand(fields map[string]any, source string) ([]manifest, error) {
	u := &unstructured.Unstructured{Object: fields}
	if strings.HasSuffix(u.GetKind(), "List") && u.IsList() {
		var (
			out  []manifest
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
			out = append(out, found...)
		}
		return out, errors.Join(errs...)
	}
	if err := check(u); err != nil {
		return nil, err
	}
	u.SetManagedFields(nil) // the API server refuses them in an apply
	return []manifest{{object: u, source: source}}, nil
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

// checkDuplicates refuses two manifests of one object: which would win is
// chance. namespace is that of objects which name none.
func checkDuplicates(ms []manifest, namespace string) error {
	type key struct {
		schema.GroupKind
		namespace, name string
	}
	first := map[key]string{}
	var errs []error
	for _, m := range ms {
		k := key{m.kind(), m.object.GetNamespace(), m.object.GetName()}
		if k.namespace == "" {
			k.namespace = namespace
		}
		if before, ok := first[k]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is given twice, first in %s", m.source, m.id(), before))
			continue
		}
		first[k] = m.source
	}
	return errors.Join(errs...)
}
