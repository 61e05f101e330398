package flux

import (
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// overlayGroup is of kustomization.yaml files, which are no objects of a cluster.
const overlayGroup = "kustomize.config.k8s.io"

// overlayNames are what kustomize calls the file of a folder.
var overlayNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// tree are the objects of all files, those that were given and those that they name.
type tree struct {
	im *importer
	// objects are all of them, without overlays and patches.
	objects []*object.Object
	// overlays are by their folder.
	overlays map[string]*object.Object
	// namespaces are those that overlays give.
	namespaces map[*object.Object]string
	// generated are the files of configMapGenerator and secretGenerator, by NAME/KEY.
	generated map[string]string
	// used are the names of generators whose files are values of a release.
	used map[string]bool
	// followed are the folders whose overlays were followed, and whole those that are
	// applied as overlays.
	followed, whole map[string]bool
	byFile          map[string][]*object.Object
	files           int
	// built is what was built of folders, and replaced are the objects in whose place there
	// are others since.
	built    map[string]*found
	replaced map[*object.Object]bool
}

func newTree(im *importer, objects []*object.Object) *tree {
	t := &tree{im: im, overlays: map[string]*object.Object{}, namespaces: map[*object.Object]string{}, generated: map[string]string{}, used: map[string]bool{}, followed: map[string]bool{}, whole: map[string]bool{}, byFile: map[string][]*object.Object{}, built: map[string]*found{}, replaced: map[*object.Object]bool{}}
	for _, f := range im.in.Files {
		t.byFile[f.Name] = nil
	}
	for _, o := range objects {
		t.add(o)
	}
	patches := map[string]bool{}
	for _, dir := range t.folders() {
		t.generators(dir)
		for _, file := range t.patches(dir) {
			patches[file] = true
		}
	}
	t.objects = slices.DeleteFunc(t.objects, func(o *object.Object) bool {
		if patches[o.File] || t.isValues(o) {
			o.Take() // told of where it is named
			return true
		}
		return false
	})
	return t
}

// add puts an object where it belongs.
func (t *tree) add(o *object.Object) {
	if o.Group == overlayGroup || o.Kind == "" && slices.Contains(overlayNames, path.Base(o.File)) {
		t.overlays[path.Dir(o.File)] = o
		return
	}
	t.objects = append(t.objects, o)
	t.byFile[o.File] = append(t.byFile[o.File], o)
}

// folders are those with overlays, in order.
func (t *tree) folders() []string {
	var all []string
	for dir := range t.overlays {
		all = append(all, dir)
	}
	slices.Sort(all)
	return all
}

// overlay is that of a folder; nil when there is none.
func (t *tree) overlay(dir string) *object.Object {
	if o := t.overlays[dir]; o != nil {
		return o
	}
	for _, name := range overlayNames {
		file := path.Join(dir, name)
		if _, known := t.byFile[file]; known {
			continue
		}
		if t.load(file) && t.overlays[dir] != nil {
			t.generators(dir)
			return t.overlays[dir]
		}
	}
	return nil
}

// load reads a file that was not given. It reports whether the file is there, or was told of.
func (t *tree) load(file string) bool {
	if _, known := t.byFile[file]; known {
		return true
	}
	if t.files++; t.files > maxFiles {
		return false
	}
	data, err := t.im.in.Read(file)
	if err != nil {
		return false
	}
	t.byFile[file] = nil
	f := foreign.File{Name: file, Data: data}
	objects, err := object.Read(f, &t.im.result.Report)
	if err != nil {
		return object.Unreadable(err, &t.im.result.Report)
	}
	t.im.in.Files = append(t.im.in.Files, f)
	for _, o := range objects {
		t.add(o)
	}
	return true
}

// patches are the files of an overlay's patches.
func (t *tree) patches(dir string) []string {
	var files []string
	o := t.overlays[dir]
	for _, field := range []string{"patches", "patchesStrategicMerge", "patchesJson6902"} {
		v := o.Get(field)
		for _, item := range v.Items() {
			if name := item.Peek() + item.Get("path").Peek(); name != "" && !strings.Contains(name, "\n") {
				files = append(files, path.Join(dir, name))
			}
		}
	}
	return files
}

// generators notes the files that an overlay makes ConfigMaps and Secrets of: they may be
// values of releases.
func (t *tree) generators(dir string) {
	o := t.overlays[dir]
	for _, field := range []string{"configMapGenerator", "secretGenerator"} {
		for _, g := range o.Get(field).Items() {
			name := g.Get("name").Peek()
			for _, file := range g.Get("files").Items() {
				key, from, ok := strings.Cut(file.Peek(), "=")
				if !ok {
					key, from = path.Base(key), key
				}
				t.generated[name+"/"+key] = path.Join(dir, from)
			}
		}
	}
}

// isValues reports whether a document is a file that a generator names.
func (t *tree) isValues(o *object.Object) bool {
	for _, file := range t.generated {
		if file == o.File {
			return true
		}
	}
	return false
}

// namespace is that of an object after overlays.
func (t *tree) namespace(o *object.Object) string {
	if ns := t.namespaces[o]; ns != "" {
		return ns
	}
	return o.Namespace
}

// found are the objects of a folder, and the folders whose overlays were followed.
type found struct {
	objects []*object.Object
	folders []string
}

// below returns the objects of a folder, as kustomize finds them: by its overlay, else
// all files below it. An overlay that changes objects of Flux is built.
func (t *tree) below(dir string) *found {
	if f := t.built[dir]; f != nil {
		return f
	}
	f := &found{}
	f.objects = t.follow(dir, f)
	t.build(dir, f)
	return f
}

func (t *tree) follow(dir string, f *found) []*object.Object {
	o := t.overlay(dir)
	if o == nil {
		var all []*object.Object
		for _, x := range t.objects {
			if strings.HasPrefix(x.File, dir+"/") || dir == "." && !path.IsAbs(x.File) {
				all = append(all, x)
			}
		}
		return all
	}
	if slices.Contains(f.folders, dir) {
		return nil
	}
	f.folders = append(f.folders, dir)
	t.followed[dir] = true
	var all []*object.Object
	for _, field := range []string{"resources", "bases", "components"} {
		for _, item := range o.Get(field).Items() {
			for _, x := range t.resource(item, dir, f) {
				if !slices.Contains(all, x) {
					all = append(all, x)
				}
			}
		}
	}
	if ns := o.Get("namespace").Text(); ns != "" {
		for _, x := range all {
			t.namespaces[x] = ns
		}
	}
	return all
}

// resource returns the objects of one entry of an overlay.
func (t *tree) resource(item *foreign.Value, dir string, f *found) []*object.Object {
	name := item.Text()
	full := path.Join(dir, name)
	if strings.Contains(name, "://") || name == "" {
		item.Lost("apply it by a step: apply: {files: [URL#sha256:…]}", "%s is not at hand, and not imported", name)
		return nil
	}
	if path.Ext(name) == ".yaml" || path.Ext(name) == ".yml" {
		if !t.load(full) {
			item.Lost("", "the file %s is not there", name)
		}
		return t.byFile[full]
	}
	all := t.follow(full, f)
	if len(all) == 0 && t.overlays[full] == nil {
		item.Lost("import its files too", "nothing is found in the folder %s", name)
	}
	return all
}

// rest follows the overlays that no Kustomization names.
func (t *tree) rest() {
	for _, dir := range t.folders() {
		if !t.followed[dir] {
			t.below(dir)
		}
	}
}

// leftovers tells of all that is not in the plan.
func (t *tree) leftovers() {
	for _, dir := range t.folders() {
		o := t.overlays[dir]
		o.TakeHead()
		if t.whole[dir] {
			o.Take()
			continue
		}
		for _, field := range []string{"patches", "patchesStrategicMerge", "patchesJson6902"} {
			if v := o.Get(field); len(v.Items()) > 0 {
				v.Lost("import what it becomes: kustomize build "+dir+" | kplan import flux -", "patches of the overlay are not applied")
			}
		}
		for _, field := range []string{"configMapGenerator", "secretGenerator"} {
			for _, g := range o.Get(field).Items() {
				if name := g.Get("name").Peek(); t.used[name] {
					g.Take()
				} else {
					g.Lost("apply it by a step: apply: {kustomize: FOLDER}", "what the overlay generates as %s is not imported", name)
				}
			}
		}
		o.Get("generatorOptions").Take()
		o.Leftovers(overlayLosses)
	}
	for _, o := range t.objects {
		if o.Group == sourceGroup && t.im.sources[o.Kind+"/"+t.namespace(o)+"/"+o.Name] == o && !t.im.asked[o] {
			o.Changed("nothing is to be done, unless something else uses it", "nothing that is fetched for the plan comes from %s", o)
		}
		o.Leftovers(losses)
	}
}
