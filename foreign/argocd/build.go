package argocd

import (
	"slices"

	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// build puts what kustomize builds of an overlay in the place of what it lists, if it
// changes objects of Argo CD.
func (im *importer) build(lay *overlay) {
	if lay == nil || im.in.Build == nil || !lay.changes || lay.built {
		return
	}
	apps, others := lay.members(im)
	if len(apps) == 0 {
		return
	}
	from := slices.Concat(apps, others)
	objects, err := object.Built(im.in, lay.dir, from, func(o *object.Object) string { return o.Namespace }, &im.result.Report)
	if err != nil {
		lay.v.Lost("see what kustomize says of it: kubectl kustomize "+lay.dir, "the overlay cannot be built: %v", err)
		return
	}
	for _, o := range from {
		if !slices.Contains(objects, o) {
			o.Take()
			im.replaced[o] = true
		}
	}
	for _, o := range objects {
		if !slices.Contains(from, o) {
			im.objects = append(im.objects, o)
			lay.files = append(lay.files, o.File)
		}
	}
	lay.built, lay.changes = true, false
}
