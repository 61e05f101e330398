package doctor

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// removeLeftBehind deletes a webhook configuration that nobody owns any more: all of its
// webhooks are called at Services that are gone, and so is the Helm release that
// brought it, or each Service's namespace.
func removeLeftBehind(ctx context.Context, c *Cluster, f finding.Finding) (Change, error) {
	all := c.hooksOf(ctx, f)
	if len(all) == 0 || c.recent(all[0].Created) {
		return Change{}, ErrNoRemedy
	}
	alone := c.owner(ctx, all[0]).gone
	for _, h := range all {
		if h.Kind == webhook.Conversion || !h.outage().gone() {
			return Change{}, ErrNoRemedy
		}
		namespace, known := c.get(ctx, namespaceResource, "", h.Client.Service.Namespace)
		if !alone && (!known || namespace != nil) {
			return Change{}, ErrNoRemedy
		}
	}
	o, _ := c.get(ctx, all[0].resource(), "", all[0].Configuration)
	if o == nil {
		return Change{}, ErrChanged
	}
	return Change{Resource: all[0].resource(), Before: o}, nil
}

// copyBundle fills in CA bundles that are empty from a webhook of the same configuration
// that is called at the same Service.
func copyBundle(ctx context.Context, c *Cluster, f finding.Finding) (Change, error) {
	all := c.hooksOf(ctx, f)
	if len(all) == 0 || all[0].Kind == webhook.Conversion {
		return Change{}, ErrNoRemedy
	}
	o, _ := c.get(ctx, all[0].resource(), "", all[0].Configuration)
	if o == nil {
		return Change{}, ErrChanged
	}
	after := o.DeepCopy()
	entries, _, err := unstructured.NestedSlice(after.Object, "webhooks")
	if err != nil || len(entries) != len(all) {
		return Change{}, ErrChanged
	}
	filled := false
	for i, h := range all {
		from := slices.IndexFunc(all, func(s hook) bool { return s.Service() == h.Service() && !s.bundleMissing() })
		entry, ok := entries[i].(map[string]any)
		if !h.bundleMissing() || from < 0 || !ok {
			continue
		}
		donor, _ := entries[from].(map[string]any)
		bundle, _, _ := unstructured.NestedString(donor, "clientConfig", "caBundle")
		if err := unstructured.SetNestedField(entry, bundle, "clientConfig", "caBundle"); err != nil || bundle == "" {
			return Change{}, ErrChanged
		}
		filled = true
	}
	if !filled {
		return Change{}, ErrNoRemedy
	}
	if err := unstructured.SetNestedSlice(after.Object, entries, "webhooks"); err != nil {
		return Change{}, err
	}
	return Change{Resource: all[0].resource(), Before: o, After: after}, nil
}

// hooksOf are the webhooks of the configuration that a finding is about.
func (c *Cluster) hooksOf(ctx context.Context, f finding.Finding) []hook {
	var all []hook
	for _, h := range c.hooks(ctx) {
		if h.Source().String() == f.Object {
			all = append(all, h)
		}
	}
	return all
}
