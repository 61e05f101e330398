package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook/match"
)

var (
	crdsGVR       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespacesGVR = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsGVR = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// sampleObjects makes objects that the webhook is called for, of different kinds.
// Without any the outcome says why.
func (p *Probe) sampleObjects(ctx context.Context, client dynamic.Interface) ([]*unstructured.Unstructured, Outcome, error) {
	labels, err := Labels(p.entry.ObjectSelector)
	if err != nil {
		return nil, unproven(err.Error()), nil
	}
	targets := Targets(p.entry)
	if len(targets) == 0 {
		if !slices.ContainsFunc(p.entry.Rules, creates) {
			return nil, unproven("it is called for " + rules(p.entry) + ", and a dry run can only create"), nil
		}
		targets = append(targets, configMapsGVR) // rules with wildcards may mean what every cluster has
	}
	reason := missing("no kind that it is called for is served: " + targets[0].GroupResource().String())
	if time.Since(p.began) > unservedGrace {
		reason.State = Unproven
	}
	var samples []*unstructured.Unstructured
	for _, t := range targets {
		m := p.served(t)
		if m == nil {
			continue
		}
		u, err := p.sampleOf(ctx, client, m)
		if err != nil {
			return nil, Outcome{}, err
		}
		u.SetLabels(labels)
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			name, why, err := p.namespace(ctx, client)
			if err != nil {
				return nil, Outcome{}, err
			}
			if name == "" {
				reason = reason.or(why)
				continue
			}
			u.SetNamespace(name)
		}
		if d, err := p.prepare(ctx, u); err != nil || d.verdict.Outcome == match.Skips {
			reason = reason.or(unproven(fmt.Sprintf("it is called for %s; to create %s was tried: %s", rules(p.entry), t.GroupResource(), d.verdict.Reason)))
			continue
		}
		if samples = append(samples, u); len(samples) == maxSamples {
			break
		}
	}
	return samples, reason, nil
}

// served finds the mapping of a resource; nil when the API server does not serve it.
func (p *Probe) served(r schema.GroupVersionResource) *meta.RESTMapping {
	gvk, err := p.config.Mapper.KindFor(r)
	if err != nil {
		return nil
	}
	m, err := p.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil || m.Resource != r {
		return nil
	}
	return m
}

// sampleOf makes an object with the required fields of its kind, as far as they
// can be read.
func (p *Probe) sampleOf(ctx context.Context, client dynamic.Interface, m *meta.RESTMapping) (*unstructured.Unstructured, error) {
	crd, err := client.Resource(crdsGVR).Get(ctx, m.Resource.Resource+"."+m.Resource.Group, metav1.GetOptions{})
	switch {
	case err == nil:
		fields, _ := Sample(schemaOf(crd, m.Resource.Version)).(map[string]any)
		return newObject(fields, m.GroupVersionKind), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// Kubernetes' own kinds have none, whoever asks.
		p.schemaless = p.schemaless || (apierrors.IsForbidden(err) && !scheme.Scheme.IsGroupRegistered(m.Resource.Group))
		return newObject(nil, m.GroupVersionKind), nil
	}
	return nil, err
}

// newObject is an object with the given fields. Its name is one that nothing has.
func newObject(fields map[string]any, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	if fields == nil {
		fields = map[string]any{}
	}
	delete(fields, "metadata")
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	u.SetGenerateName("kplan-probe-")
	return u
}

// schemaOf is the schema of one version of a CustomResourceDefinition.
func schemaOf(crd *unstructured.Unstructured, version string) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if m["name"] == version {
			s, _, _ := unstructured.NestedMap(m, "schema", "openAPIV3Schema")
			return s
		}
	}
	return map[string]any{"type": "object"}
}

// namespace picks one in which the webhook is called: that of its Service if it
// is, else any other. Without one the outcome says why.
func (p *Probe) namespace(ctx context.Context, client dynamic.Interface) (name string, why Outcome, err error) {
	selector := p.entry.NamespaceSelector
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", unproven(err.Error()), nil
	}
	list, err := client.Resource(namespacesGVR).List(ctx, metav1.ListOptions{LabelSelector: s.String()})
	switch {
	case ctx.Err() != nil:
		return "", Outcome{}, context.Cause(ctx)
	case apierrors.IsForbidden(err):
		return "", Outcome{State: Unproven, Reason: "namespaces may not be listed", Forbidden: true}, nil
	case err != nil:
		return "", Outcome{}, err
	}
	for _, ns := range list.Items {
		switch {
		case ns.GetDeletionTimestamp() != nil:
		case p.entry.Client.Service != nil && ns.GetName() == p.entry.Client.Service.Namespace:
			return ns.GetName(), Outcome{}, nil
		case name == "":
			name = ns.GetName()
		}
	}
	return name, unproven("no namespace matches its namespaceSelector " + s.String()), nil
}
