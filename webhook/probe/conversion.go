package probe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook"
)

// askConversion asks for objects in every served version that is not stored. A
// conversion webhook is called for objects that exist; where there are none, one
// is made up and created by dry run, which converts it to the stored version.
func (p *Probe) askConversion(ctx context.Context, client dynamic.Interface) (Outcome, error) {
	crd, err := client.Resource(crdsGVR).Get(ctx, p.entry.Configuration, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return Outcome{}, context.Cause(ctx)
	case apierrors.IsForbidden(err):
		return Outcome{State: Unproven, Reason: "its CustomResourceDefinition may not be read", Forbidden: true}, nil
	case err != nil:
		return Outcome{}, err
	}
	versions, whole := convertedVersions(crd)
	last := unproven("its CustomResourceDefinition serves the stored version only, so nothing is converted")
	proven := false
	for _, gvr := range versions {
		o, err := p.askList(ctx, client, gvr, whole)
		if err == nil && o.State == Unproven {
			var more Outcome
			more, err = p.askConverted(ctx, client, crd, gvr)
			o = o.or(more)
		}
		if err != nil || o.State == Missing {
			return o, err
		}
		proven, last = proven || o.State == Proven, last.or(o)
	}
	if proven {
		return Outcome{State: Proven}, nil
	}
	return last, nil
}

// convertedVersions lists the versions that a CRD serves and does not store, and tells
// whether every object is stored in another version than those.
func convertedVersions(crd *unstructured.Unstructured) (versions []schema.GroupVersionResource, whole bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	all, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range all {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		served, _ := m["served"].(bool)
		if stored, _ := m["storage"].(bool); served && !stored {
			versions = append(versions, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		}
	}
	stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	return versions, len(stored) == 1
}

// askList reads one object in a version. whole says that it is stored in
// another one for certain.
func (p *Probe) askList(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, whole bool) (Outcome, error) {
	list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil {
		if whole && len(list.Items) > 0 {
			return Outcome{State: Proven}, nil
		}
		return unproven("there is no object to convert"), nil
	}
	a, err := read(ctx, err, &unstructured.Unstructured{})
	switch {
	case err != nil:
		return Outcome{}, err
	case a.fault.Kind != "":
		return p.failed(a.fault), nil
	}
	return a.unproven(""), nil
}

// askConverted creates a made-up object in a version by dry run.
func (p *Probe) askConverted(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured, gvr schema.GroupVersionResource) (Outcome, error) {
	u, _ := Sample(schemaOf(crd, gvr.Version)).(map[string]any)
	object := newObject(u, schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version, Kind: p.entry.Converts.Kind})
	if scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope"); scope != "Cluster" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	d, err := p.prepare(ctx, object)
	if err != nil {
		return unproven(err.Error()), nil
	}
	a, err := send(ctx, client, d)
	switch {
	case err != nil:
		return Outcome{}, err
	case a.admitted:
		return Outcome{State: Proven}, nil
	case a.fault.Class == webhook.Denied:
		return unproven(fmt.Sprintf("there is no object to convert, and webhook %q denies a made-up one: %s", a.fault.Webhook, a.fault.Cause)), nil
	case a.fault.Kind == webhook.Conversion && a.fault.URL == "" && a.fault.Class == webhook.Misconfigured && !a.fault.Ambiguous():
		// Most likely it answers that the made-up object cannot be converted.
		return unproven("there is no object to convert, and a made-up one is not: " + a.fault.Cause), nil
	case a.fault.Kind != "":
		return p.failed(a.fault), nil
	}
	return a.unproven("there is no object to convert, and a made-up one is refused: "), nil
}
