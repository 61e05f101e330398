package engine

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/metadata"
	"k8s.io/kubectl/pkg/validation"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// Validator makes the check of fields that Helm does before it sends objects.
type Validator func(directive string) (validation.Schema, error)

// validates is the version from which on every API server validates fields itself
// (KEP-2885).
var validates = version.MustParseGeneric("1.27")

// Quick leaves out the check of objects whose fields the API server validates: Helm finds
// that out from the OpenAPI documents of their API versions, which are megabytes, and
// then checks nothing. What the version of the server, discovery and the definition of a
// kind do not tell is left to Helm's own way.
func Quick(getter genericclioptions.RESTClientGetter, slow Validator) Validator {
	q := &quick{getter: getter, known: map[schema.GroupVersionKind]bool{}}
	return func(directive string) (validation.Schema, error) {
		s, err := slow(directive)
		if err != nil || directive == metav1.FieldValidationIgnore {
			return s, err
		}
		return quickSchema{q, s}, nil
	}
}

// quickSchema checks what the server does not.
type quickSchema struct {
	*quick
	slow validation.Schema
}

// ValidateBytes implements validation.Schema.
func (s quickSchema) ValidateBytes(data []byte) error {
	var u unstructured.Unstructured
	if u.UnmarshalJSON(data) == nil && s.knows(u.GroupVersionKind()) {
		return nil
	}
	return s.slow.ValidateBytes(data)
}

// quick knows of which kinds the server validates fields. It is safe for concurrent use.
type quick struct {
	getter genericclioptions.RESTClientGetter

	mu    sync.Mutex
	known map[schema.GroupVersionKind]bool
}

func (q *quick) knows(gvk schema.GroupVersionKind) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	known, asked := q.known[gvk]
	if !asked {
		known = q.find(gvk)
		q.known[gvk] = known
	}
	return known
}

// find asks the server's version, discovery, and for the definition of a custom resource:
// an aggregated API server may not validate fields.
func (q *quick) find(gvk schema.GroupVersionKind) bool {
	client, err := q.getter.ToDiscoveryClient()
	if err != nil {
		return false
	}
	info, err := client.ServerVersion()
	if err != nil {
		return false
	}
	if is, err := version.ParseGeneric(info.GitVersion); err != nil || is.LessThan(validates) {
		return false
	}
	list, err := client.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		return false
	}
	i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind && slices.Contains(r.Verbs, "patch") })
	return i >= 0 && (!kinds.Custom(gvk.Group) || q.isDefined(list.APIResources[i].Name+"."+gvk.Group))
}

// isDefined reports whether a CustomResourceDefinition exists.
func (q *quick) isDefined(name string) bool {
	config, err := q.getter.ToRESTConfig()
	if err != nil {
		return false
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return false
	}
	// The transport of the configuration ends the request.
	_, err = client.Resource(kinds.Definitions.GroupVersion().WithResource("customresourcedefinitions")).Get(context.Background(), name, metav1.GetOptions{})
	return err == nil
}
