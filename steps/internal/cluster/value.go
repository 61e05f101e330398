package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// The kinds of objects that Value reads.
var (
	Secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	ConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// describe names an object of the cluster for people.
func (c *Conn) describe(kind string, ref plan.KeyRef) string {
	s := kind + " " + cmp.Or(ref.Namespace, c.Namespace()) + "/" + ref.Name
	if c.name != "" {
		s += " in cluster " + c.name
	}
	return s
}

// AbsentError says that a cluster does not have what a step needs from it yet.
type AbsentError struct {
	// What is an object, or a part of one, for people.
	What string
	// There is what is there instead; it may be empty.
	There string
}

func (e *AbsentError) Error() string {
	if e.There == "" {
		return e.What + " does not exist"
	}
	return e.What + " does not exist: " + e.There
}

// Value reads a key of a Secret or ConfigMap.
func (c *Conn) Value(ctx context.Context, resource schema.GroupVersionResource, ref plan.KeyRef) ([]byte, error) {
	kind := "Secret"
	if resource == ConfigMaps {
		kind = "ConfigMap"
	}
	api, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(ref.Namespace, api.Namespace())
	what := c.describe(kind, ref)
	u, err := api.Client.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &AbsentError{What: what}
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("reading %s: %w", what, context.Cause(ctx))
	case err != nil:
		return nil, kubeerr.Explain(fmt.Errorf("reading %s: %w", what, err), kubeerr.Op{Verb: "get", Resource: resource.GroupResource(), Namespace: namespace})
	}
	for _, field := range []string{"data", "binaryData"} {
		text, found, err := unstructured.NestedString(u.Object, field, ref.Key)
		switch {
		case !found || err != nil:
		case kind == "Secret" || field == "binaryData":
			return base64.StdEncoding.DecodeString(text)
		default:
			return []byte(text), nil
		}
	}
	return nil, &AbsentError{What: fmt.Sprintf("key %q of %s", ref.Key, what), There: keysOf(u)}
}

// keysOf lists what a Secret or ConfigMap has, without the values.
func keysOf(u *unstructured.Unstructured) string {
	var keys []string
	for _, field := range []string{"data", "binaryData"} {
		m, _, _ := unstructured.NestedMap(u.Object, field)
		keys = append(keys, slices.Collect(maps.Keys(m))...)
	}
	if len(keys) == 0 {
		return "it has no data"
	}
	slices.Sort(keys)
	return "it has " + strings.Join(keys, ", ")
}
