// Package output reads what a step gives to later ones: values in objects of the
// step's cluster.
//
// It does not wait: a value that is not there is an error, which another attempt
// of the step may mend. It does not decide who may see a value, but says which
// are not to be shown.
package output

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// Outputs are those of one step.
type Outputs struct {
	specs     map[string]plan.Output
	namespace string // of those that name none; "" for the context's
	queries   map[string]query
}

// query finds a value in an object. It does not change the object.
type query interface {
	find(object map[string]any) (any, error)
	String() string
}

// New reads the outputs that a step declares, and the namespace that it names, for
// those that name none. What is wrong in them is told here; a cluster is asked in
// Read only.
func New(specs map[string]plan.Output, namespace string) (*Outputs, error) {
	o := &Outputs{specs: specs, namespace: namespace, queries: map[string]query{}}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		q, err := compile(specs[name])
		if err != nil {
			return nil, runner.Permanent(fmt.Errorf("outputs.%s: %w", name, err))
		}
		o.queries[name] = q
	}
	return o, nil
}

func compile(spec plan.Output) (query, error) {
	if kind, name, ok := strings.Cut(spec.Resource, "/"); !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("resource: %q is not TYPE/NAME", spec.Resource)
	}
	switch {
	case spec.JSONPath != "" && spec.CEL != "":
		return nil, errors.New("jsonpath and cel exclude each other")
	case spec.JSONPath != "":
		return newPath(spec.JSONPath)
	case spec.CEL != "":
		return newCELQuery(spec.CEL)
	}
	return nil, errors.New("it takes jsonpath or cel to say what is read")
}

// Empty reports whether the step declares none.
func (o *Outputs) Empty() bool { return len(o.queries) == 0 }

// Read reads the values, and gives the names of those that must not be shown.
// Each object is read once. The error says which value is not there, and what is.
func (o *Outputs) Read(ctx context.Context, s *cluster.Session) (values map[string]any, sensitive []string, err error) {
	values = map[string]any{}
	objects := map[[2]string]*unstructured.Unstructured{}
	for _, name := range slices.Sorted(maps.Keys(o.queries)) {
		spec := o.specs[name]
		id := [2]string{spec.Resource, spec.Namespace}
		if objects[id] == nil {
			if objects[id], err = get(ctx, s, spec, o.namespace); err != nil {
				return nil, nil, fmt.Errorf("output %q: %w", name, err)
			}
		}
		u := objects[id]
		if values[name], err = o.value(name, u); err != nil {
			return nil, nil, fmt.Errorf("output %q: %w", name, err)
		}
		if ptr.Deref(spec.Sensitive, isSecret(u)) {
			sensitive = append(sensitive, name)
		}
	}
	return values, sensitive, nil
}

// value finds one value in its object.
func (o *Outputs) value(name string, u *unstructured.Unstructured) (any, error) {
	q := o.queries[name]
	value, err := q.find(decoded(u).Object)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %s: %w", o.specs[name].Resource, q, kubeerr.Redact(err, u))
	case value == nil:
		err = fmt.Errorf("%s: %s gives nothing", o.specs[name].Resource, q)
	default:
		return value, nil
	}
	if s := there(u.Object, q.String()); s != "" {
		err = fmt.Errorf("%w; %s", err, s)
	}
	return nil, &MissingError{err}
}

// MissingError says that a value, or its object, is not there yet.
type MissingError struct{ error }

func (e *MissingError) Unwrap() error { return e.error }

// get reads the object of an output of a step in a namespace.
func get(ctx context.Context, s *cluster.Session, spec plan.Output, of string) (*unstructured.Unstructured, error) {
	kind, name, _ := strings.Cut(spec.Resource, "/")
	namespace := cmp.Or(spec.Namespace, of, s.Cluster.Namespace())
	mapping, err := s.Cluster.MappingFor(ctx, kind)
	if meta.IsNoMatchError(err) {
		return nil, runner.WithHint(fmt.Errorf("the API server does not know the type %q", kind),
			"is its CustomResourceDefinition installed? see what there is with: kubectl api-resources")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Resource, err)
	}
	u, err := s.Resource(mapping, namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && mapping.Scope.Name() == meta.RESTScopeNameNamespace:
		return nil, &MissingError{fmt.Errorf("%s does not exist in namespace %s", spec.Resource, namespace)}
	case apierrors.IsNotFound(err):
		return nil, &MissingError{fmt.Errorf("%s does not exist", spec.Resource)}
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, kubeerr.Explain(fmt.Errorf("reading %s: %w", spec.Resource, err),
			kubeerr.Op{Verb: "get", Resource: mapping.Resource.GroupResource(), Namespace: namespace})
	}
	return u, nil
}

func isSecret(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Secret"}
}

// decoded is a Secret whose data are what they stand for, where that is text; any
// other object as it is.
func decoded(u *unstructured.Unstructured) *unstructured.Unstructured {
	data, found, err := unstructured.NestedStringMap(u.Object, "data")
	if !isSecret(u) || !found || err != nil {
		return u
	}
	plain := map[string]any{}
	for k, v := range data {
		plain[k] = v
		if b, err := base64.StdEncoding.DecodeString(v); err == nil && utf8.Valid(b) {
			plain[k] = string(b)
		}
	}
	u = &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	u.Object["data"] = plain
	return u
}
