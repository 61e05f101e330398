package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/finding"
)

// owner is who brought a webhook.
type owner struct {
	// name names it for people; "" when nothing is known of it.
	name string
	// gone says that it is a Helm release that has no records any more, for certain.
	gone     bool
	evidence []finding.Evidence
}

// owner reads who brought a webhook.
func (c *Cluster) owner(ctx context.Context, h hook) owner {
	o := owner{name: h.Owner.String()}
	read := func(field, value string) {
		o.evidence = append(o.evidence, finding.Evidence{Object: h.Source().String(), Field: field, Value: value})
	}
	switch {
	case h.Owner.Release != "":
		read("metadata.annotations[meta.helm.sh/release-name]", h.Owner.Release)
		namespace, name, _ := strings.Cut(h.Owner.Release, "/")
		if recorded, known := c.installed(ctx, name, h.Labels); known && !recorded {
			o.gone = true
			o.evidence = append(o.evidence, release{namespace, name}.unrecorded())
		}
	case h.Owner.Controller != "":
		read("metadata.ownerReferences", h.Owner.Controller)
	case len(h.Owner.Labels) > 0:
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(h.Owner.Labels)) {
			labels = append(labels, k+"="+h.Owner.Labels[k])
		}
		read("metadata.labels", strings.Join(labels, ", "))
	case h.Owner.Manager != "":
		read("metadata.managedFields", h.Owner.Manager)
	}
	return o
}

// installed reports whether Helm has a record of a release, in any namespace: Flux keeps
// those of a HelmRelease with a storageNamespace elsewhere than its objects are. It is not
// known for what Flux has made, nor where records could not be read, nor in a cluster
// without any: Helm may keep them in a database (helm.sh/helm/v3 pkg/storage/driver).
func (c *Cluster) installed(ctx context.Context, name string, labels map[string]string) (recorded, known bool) {
	r := c.records(ctx, true)
	return r.names[name], r.told() && labels[fluxLabel] == ""
}

// fluxLabel is on what a HelmRelease of Flux has made (fluxcd/helm-controller
// internal/postrender).
const fluxLabel = "helm.toolkit.fluxcd.io/name"
