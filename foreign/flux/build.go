package flux

import (
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// plainFields are those of a kustomization.yaml that are followed: they change nothing but
// the namespace.
var plainFields = []string{"apiVersion", "kind", "metadata", "resources", "bases", "namespace", "configMapGenerator", "secretGenerator", "generatorOptions"}

// build puts what kustomize builds of a folder in the place of what was found there, if
// that changes objects of Flux. All else of an overlay is applied by a step, or told of.
func (t *tree) build(dir string, f *found) {
	if t.im.in.Build == nil || !t.changes(f) || !slices.ContainsFunc(f.objects, isOwn) {
		return
	}
	objects, err := object.Built(t.im.in, dir, f.objects, t.namespace, &t.im.result.Report)
	if err != nil {
		t.im.result.Lost(t.overlays[dir].Place(), "see what kustomize says of it: kubectl kustomize "+dir, "the overlay cannot be built: %v", err)
		return
	}
	other := func(all []*object.Object) func(*object.Object) bool {
		return func(o *object.Object) bool { return isOwn(o) && !slices.Contains(all, o) }
	}
	if !slices.ContainsFunc(objects, other(f.objects)) && !slices.ContainsFunc(f.objects, other(objects)) {
		return
	}
	for _, o := range f.objects {
		t.replaced[o] = t.replaced[o] || !slices.Contains(objects, o)
	}
	for _, o := range objects {
		if !slices.Contains(f.objects, o) {
			t.add(o)
		}
	}
	f.objects, t.built[dir] = objects, f
	for _, below := range f.folders {
		t.whole[below] = true
	}
}

// beside are the objects that an overlay has beside those of Flux, as it makes them.
func (t *tree) beside(g *group, rest []*object.Object) []*object.Object {
	if t.im.in.Build == nil || t.overlays[g.dir] == nil || t.built[g.dir] == g.found || !t.changes(g.found) {
		return rest
	}
	objects, err := object.Built(t.im.in, g.dir, g.found.objects, t.namespace, &t.im.result.Report)
	if err != nil {
		t.im.result.Lost(t.overlays[g.dir].Place(), "see what kustomize says of it: kubectl kustomize "+g.dir, "the overlay cannot be built: %v", err)
		return rest
	}
	for _, o := range rest {
		if !slices.Contains(objects, o) {
			o.Take()
		}
	}
	for _, dir := range g.found.folders {
		t.whole[dir] = true
	}
	return slices.DeleteFunc(objects, isOwn)
}

// changes reports whether overlays change the objects that they list.
func (t *tree) changes(f *found) bool {
	for _, dir := range f.folders {
		for _, field := range t.overlays[dir].Fields() {
			if !slices.Contains(plainFields, field.Name()) {
				return true
			}
		}
	}
	return false
}

func isOwn(o *object.Object) bool { return strings.HasSuffix(o.Group, ".fluxcd.io") }

// buildRoots builds the overlays of the files that were given, but for those that another
// one lists: they may change where Kustomizations lead to.
func (t *tree) buildRoots() {
	if t.im.in.Build == nil {
		return
	}
	listed := map[string]bool{}
	for dir, o := range t.overlays {
		for _, field := range []string{"resources", "bases", "components"} {
			for _, item := range o.Get(field).Items() {
				listed[path.Join(dir, item.Peek())] = true
			}
		}
	}
	for _, dir := range t.folders() {
		if !listed[dir] {
			t.below(dir)
		}
	}
}

// settle takes the objects that others have replaced, but for those that a Kustomization
// has as they were.
func (t *tree) settle() {
	for _, g := range t.im.groups {
		if t.built[g.dir] == g.found {
			continue
		}
		for _, o := range g.found.objects {
			delete(t.replaced, o)
		}
	}
	for o, gone := range t.replaced {
		if gone {
			o.Take()
		}
	}
}
