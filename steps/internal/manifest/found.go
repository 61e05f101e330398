package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
)

// Found is an object of an apply step with the place that it was read from.
type Found struct {
	// Object is as Objects gives it.
	Object *unstructured.Unstructured
	// File is the absolute path of the file; "" for an object that stands in the plan.
	File string
	// Document is the YAML document of the file that has the object, and Line the
	// line of the file, counted from 1, that it begins with.
	Document []byte
	Line     int
	// At is the object's path in the document, or among the step's objects.
	At []any
}

// Find reads the objects that an apply step of p sends, as Objects does. Those
// that can be read are given even if others cannot.
func Find(p *plan.Plan, spec plan.Apply) ([]Found, error) {
	manifests, err := Read(p, spec)
	found := make([]Found, len(manifests))
	for i, m := range manifests {
		found[i] = Found{Object: m.Unstructured, File: m.file, Document: m.doc.text, Line: m.doc.begin, At: m.at}
		if m.GetNamespace() == "" {
			m.SetNamespace(spec.Namespace)
		}
	}
	return found, err
}

// Applied are the objects of an apply step; other kinds send none that are known.
func Applied(p *plan.Plan, s plan.Step) ([]*unstructured.Unstructured, error) {
	if s.Apply == nil {
		return nil, nil
	}
	return Objects(p.In(s), *s.Apply)
}
