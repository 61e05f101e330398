package argocd

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// overlayNames are what kustomize calls the file of a folder.
var overlayNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomizeGroup is the API group of what kustomize reads. No cluster serves it.
const kustomizeGroup = "kustomize.config.k8s.io"

// overlay is a folder that kustomize builds.
type overlay struct {
	dir string
	v   *object.Object
	// files are those that it leads to, with those of the overlays below it. patches are
	// those of them with no objects of their own.
	files, patches []string
	// remote are resources that are elsewhere.
	remote []*foreign.Value
	// changes reports whether objects are not sent as they are in the files.
	changes bool
	// built reports whether what kustomize makes of it is among the objects.
	built bool
}

// overlay is the one in a folder; nil when there is none. What it lists is read, so far
// as it is at hand: nothing that is elsewhere is fetched.
func (im *importer) overlay(dir string) *overlay {
	if known, ok := im.overlays[dir]; ok {
		return known
	}
	im.overlays[dir] = nil // it does not lead to itself
	for _, name := range overlayNames {
		for _, o := range im.load(path.Join(dir, name)) {
			lay := &overlay{dir: dir, v: o, files: []string{o.File}}
			im.overlays[dir] = lay
			lay.read(im)
			return lay
		}
	}
	return nil
}

// unchanging are the fields of an overlay that change no object.
var unchanging = []string{"apiVersion", "kind", "metadata", "resources", "bases"}

// read follows what an overlay lists.
func (lay *overlay) read(im *importer) {
	lay.v.Take()
	for _, field := range lay.v.Fields() {
		lay.changes = lay.changes || !slices.Contains(unchanging, field.Name())
		for _, item := range field.Items() {
			switch name := item.Peek(); field.Name() {
			case "resources", "bases", "components":
				lay.resource(im, item)
			case "patchesStrategicMerge", "configurations", "transformers", "generators", "validators":
				lay.patches = append(lay.patches, path.Join(lay.dir, name))
			case "patches", "patchesJson6902", "replacements":
				lay.patches = append(lay.patches, path.Join(lay.dir, item.Get("path").Peek()))
			case "configMapGenerator", "secretGenerator":
				for _, file := range slices.Concat(item.Get("files").Items(), item.Get("envs").Items()) {
					_, name, renamed := strings.Cut(file.Peek(), "=")
					if !renamed {
						name = file.Peek()
					}
					lay.patches = append(lay.patches, path.Join(lay.dir, name))
				}
			}
		}
	}
	lay.files = append(lay.files, lay.patches...)
}

// resource follows a file or folder of an overlay.
func (lay *overlay) resource(im *importer, item *foreign.Value) {
	name := path.Join(lay.dir, item.Peek())
	if strings.Contains(item.Peek(), "://") {
		lay.remote = append(lay.remote, item)
		return
	}
	if slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
		lay.files = append(lay.files, name)
		if im.load(name) == nil {
			lay.remote = append(lay.remote, item)
		}
		return
	}
	below := im.overlay(name)
	if below == nil {
		lay.remote = append(lay.remote, item)
		return
	}
	lay.files, lay.patches = append(lay.files, below.files...), append(lay.patches, below.patches...)
	lay.remote = append(lay.remote, below.remote...)
	lay.changes = lay.changes || below.changes
}

// load reads the objects of a file, unless they are known.
func (im *importer) load(file string) []*object.Object {
	var objects []*object.Object
	for _, o := range im.objects {
		if o.File == file {
			objects = append(objects, o)
		}
	}
	if len(objects) > 0 || slices.ContainsFunc(im.in.Files, func(f foreign.File) bool { return f.Name == file }) {
		return objects
	}
	data, err := im.in.Read(file)
	if err != nil {
		return nil
	}
	f := foreign.File{Name: file, Data: data}
	im.in.Files = append(im.in.Files, f)
	objects, err = object.Read(f, &im.result.Report)
	if err != nil {
		object.Unreadable(err, &im.result.Report)
		return nil
	}
	im.objects = append(im.objects, objects...)
	return objects
}

func take(objects []*object.Object) {
	for _, o := range objects {
		o.Take()
	}
}

// members are the objects of the files that an overlay leads to. Patches are taken: they
// are of its own.
func (lay *overlay) members(im *importer) (apps, others []*object.Object) {
	for _, o := range im.objects {
		switch {
		case im.replaced[o]:
		case slices.Contains(lay.patches, o.File):
			o.Take()
		case !slices.Contains(lay.files, o.File):
		case isOwn(o):
			apps = append(apps, o)
		case o.Group != kustomizeGroup:
			others = append(others, o)
		}
	}
	return apps, others
}

// overlaid makes a step of an overlay. One that lists Applications is not applied: they are
// imported themselves, and only the other objects are.
func (a *application) overlaid(s *foreign.Value, dir string) {
	lay := a.overlay(dir)
	a.build(lay)
	a.readApplications()
	if lay == nil { // it cannot be read, which has been told
		a.apply(s, "kustomize", a.in.FromPlan(dir))
		return
	}
	a.laid = append(a.laid, lay)
	apps, others := lay.members(a.importer)
	a.members = append(a.members, others...)
	if len(apps) == 0 {
		take(others)
		a.apply(s, "kustomize", a.in.FromPlan(dir))
		return
	}
	if lay.changes {
		s.Get("path").Lost("import what it makes: kustomize build "+dir+" | kplan import argocd -", "the overlay %s has Applications, and what it changes of its objects is not imported", dir)
	}
	for _, item := range lay.remote {
		item.Lost("name it in files of an apply step, or import the Applications that are in it", "%s of the overlay %s is not at hand, and is not imported", item.Peek(), dir)
	}
	a.objectsOf(true)
}

// readOverlays reads the overlays of the files that were given: what a patch of them says
// of an object is no object.
func (im *importer) readOverlays() {
	for i := 0; i < len(im.objects); i++ { // what an overlay lists is added
		if o := im.objects[i]; slices.Contains(overlayNames, path.Base(o.File)) {
			im.overlay(path.Dir(o.File))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(im.overlays)) {
		if lay := im.overlays[dir]; lay != nil && !im.leadsTo(lay) {
			im.build(lay)
		}
	}
}

// leftOverlays tells of the overlays that no Application has and no other one leads to.
func (im *importer) leftOverlays() {
	for _, dir := range slices.Sorted(maps.Keys(im.overlays)) {
		lay := im.overlays[dir]
		if lay == nil || im.leadsTo(lay) {
			continue
		}
		_, others := lay.members(im)
		take(others)
		lay.v.Lost("make an apply step with kustomize: "+im.in.FromPlan(dir), "the overlay %s is of no Application, and is not imported", dir)
	}
}

// leadsTo reports whether an Application or another overlay leads to an overlay.
func (im *importer) leadsTo(lay *overlay) bool {
	for _, other := range im.overlays {
		if other != nil && other != lay && slices.Contains(other.files, lay.v.File) {
			return true
		}
	}
	return slices.ContainsFunc(im.apps, func(a *application) bool { return slices.Contains(a.laid, lay) })
}

// isPatch reports whether an overlay changes objects by a file.
func (im *importer) isPatch(file string) bool {
	for _, lay := range im.overlays {
		if lay != nil && slices.Contains(lay.patches, file) {
			return true
		}
	}
	return false
}

// inOverlay reports whether a file is of an overlay.
func (im *importer) inOverlay(file string) bool {
	for _, lay := range im.overlays {
		if lay != nil && slices.Contains(lay.files, file) {
			return true
		}
	}
	return false
}
