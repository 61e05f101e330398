package flux

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
	"github.com/kplan-dev/kplan/plan"
)

// group is a Kustomization of Flux, or what is in none.
type group struct {
	// v is nil for what is in no Kustomization.
	v               *object.Object
	name, namespace string
	// dir is its folder, "" when it is not at hand.
	dir     string
	found   *found
	members []*object.Object
	// steps are all of the plan that came of it.
	steps   []*foreign.Step
	cluster string
	// substitutes reports whether postBuild puts values into the objects. values are
	// those that are known and vars the plan's variables, both by Flux's names; unknown
	// reports whether there are others.
	substitutes bool
	unknown     bool
	values      map[string]*foreign.Value
	vars        map[string]string
	im          *importer
}

func (g *group) namespaceOr(other string) string { return cmp.Or(g.namespace, other) }

// readGroups finds the Kustomizations, and what is in each.
func (im *importer) readGroups() {
	im.tree.buildRoots()
	for i := 0; i < len(im.tree.objects); i++ { // following one may bring more
		o := im.tree.objects[i]
		if !o.Is(kustomizeGroup, "Kustomization") || im.tree.replaced[o] {
			continue
		}
		g := &group{im: im, v: o, name: o.Name, namespace: o.Namespace, found: &found{}}
		if im.group(g.name, g.namespace) != nil {
			o.Lost("import the files of one cluster at a time", "there are two of %s, and this one is not imported", o)
			continue
		}
		if g.dir = im.home(o); g.dir != "" {
			g.found = im.tree.below(g.dir)
		}
		if ns := o.Get("spec", "targetNamespace").Text(); ns != "" {
			for _, x := range g.found.objects {
				im.tree.namespaces[x] = ns
			}
		}
		im.groups = append(im.groups, g)
	}
	im.tree.rest()
	im.tree.settle()
	rest := &group{im: im, name: "objects"}
	for _, o := range im.tree.objects {
		if o.Group == sourceGroup || o.Is(kustomizeGroup, "Kustomization") || im.tree.replaced[o] {
			continue
		}
		g := im.owner(o)
		if g == nil {
			g = rest
		}
		g.members = append(g.members, o)
	}
	im.groups = append(im.groups, rest)
}

// home is the folder of a Kustomization; "" when it is not at hand. The top of a
// repository is known by another Kustomization with the same source.
func (im *importer) home(o *object.Object) string {
	ref := o.Get("spec", "sourceRef")
	within := im.folder(ref, o.Namespace, o.Get("spec", "path").Peek())
	if path.Clean(within) != "." || ref.Get("kind").Peek() == "ExternalArtifact" {
		return im.resolve(o.File, within, nil)
	}
	for _, other := range im.tree.objects {
		folder := path.Clean(other.Get("spec", "path").Peek())
		if !other.Is(kustomizeGroup, "Kustomization") || folder == "." || !sameSource(ref, other.Get("spec", "sourceRef")) {
			continue
		}
		if dir := im.resolve(other.File, folder, nil); dir != "" {
			return path.Clean(strings.TrimSuffix(dir, folder))
		}
	}
	return ""
}

// sameSource reports whether two references are to one source.
func sameSource(a, b *foreign.Value) bool {
	for _, field := range []string{"kind", "namespace", "name"} {
		if a.Get(field).Peek() != b.Get(field).Peek() {
			return false
		}
	}
	return a.Get("name").Peek() != ""
}

// owner is the Kustomization with an object: that of the deepest folder.
func (im *importer) owner(o *object.Object) *group {
	var owner *group
	for _, g := range im.groups {
		if !slices.Contains(g.found.objects, o) || o == g.v {
			continue
		}
		switch {
		case owner == nil, strings.HasPrefix(g.dir, owner.dir+"/"), owner.dir == ".":
			owner = g
		case !strings.HasPrefix(owner.dir, g.dir+"/") && g.dir != ".":
			g.v.Get("spec", "path").Lost("write a step for what is meant to be there twice, or import the files of one cluster at a time", "objects of the folder %s are in the Kustomization %s already, and are in the plan once", path.Dir(o.File), owner.name)
		}
	}
	return owner
}

// group is the Kustomization with a name; nil when there is none.
func (im *importer) group(name, namespace string) *group {
	for _, g := range im.groups {
		if g.v != nil && g.name == name && (g.namespace == namespace || namespace == "" || g.namespace == "") {
			return g
		}
	}
	return nil
}

// resolve finds a folder of the repository that a file is in: nobody says where that
// begins. It is "" when none has files.
func (im *importer) resolve(file, name string, markers []string) string {
	if name == "" && markers == nil {
		return ""
	}
	if markers == nil {
		markers = overlayNames
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		full := path.Join(dir, name)
		for _, marker := range markers {
			if _, err := im.in.Read(path.Join(full, marker)); err == nil {
				return full
			}
		}
		for _, o := range im.tree.objects {
			if strings.HasPrefix(o.File, full+"/") && path.Clean(name) != "." {
				return full
			}
		}
		if dir == "." || dir == "/" {
			return ""
		}
	}
}

// importGroup makes the steps of a group.
func (im *importer) importGroup(g *group) {
	if g.v != nil {
		im.kustomization(g)
	}
	var releases, rest []*object.Object
	for _, o := range g.members {
		switch {
		case o.Is(helmGroup, "HelmRelease"):
			releases = append(releases, o)
		case o.Is(extensionGroup, "ArtifactGenerator"): // what it makes is found where it comes from
		case strings.HasSuffix(o.Group, ".fluxcd.io"):
			o.Lost("look what it is for, and whether the plan can do without", "%s of Flux is not imported", o)
		default:
			rest = append(rest, o)
		}
	}
	if g.v != nil && len(releases) == 0 && (len(rest) > 0 || g.dir == "") {
		im.applyGroup(g, rest)
		return
	}
	objects := object.Rest{Plan: im.plan, Report: &im.result.Report, In: im.in, Objects: rest, Name: g.name, Namespace: im.common(rest), All: im.tree.objects}
	before := objects.Own()
	im.applied(g, before)
	for _, o := range releases {
		if r := im.release(o, g); r != nil {
			r.step.Need(before, "")
			g.steps = append(g.steps, r.step)
		}
	}
	if after := objects.Custom(); after != nil {
		for _, s := range g.steps {
			after.Need(s, "")
		}
		im.applied(g, after)
	}
	im.healthChecks(g)
}

// common is the namespace that overlays give all of these objects; "" when it is not one.
func (im *importer) common(objects []*object.Object) string {
	ns := ""
	for i, o := range objects {
		if i > 0 && im.tree.namespaces[o] != ns {
			return ""
		}
		ns = im.tree.namespaces[o]
	}
	return ns
}

// applyGroup makes a step of a Kustomization that applies objects alone.
func (im *importer) applyGroup(g *group, rest []*object.Object) {
	s := &foreign.Step{Kind: plan.KindApply}
	switch {
	case g.dir == "":
		s.Fields.Set("kustomize", im.away(g, g.v.Get("spec", "path").Text()))
	case im.tree.overlays[g.dir] != nil && !slices.ContainsFunc(g.found.objects, isOwn):
		s.Fields.Set("kustomize", im.in.FromPlan(g.dir))
		for _, dir := range g.found.folders {
			im.tree.whole[dir] = true
		}
		for _, o := range rest {
			o.Take()
		}
	default: // with objects of Flux in it, which are imported themselves
		rest = im.tree.beside(g, rest)
		s = object.Rest{Plan: im.plan, Report: &im.result.Report, In: im.in, Objects: rest, Name: g.name, Namespace: im.common(rest), All: im.tree.objects}.Any()
	}
	if s == nil {
		return
	}
	if s.Name == "" {
		im.plan.Add(s, g.name)
	}
	im.applied(g, s)
	im.healthChecks(g)
}

// away is the folder of a Kustomization whose files are not at hand.
func (im *importer) away(g *group, folder string) string {
	ref := g.v.Get("spec", "sourceRef")
	kind, name, source := im.source(ref, g.namespace)
	if source != nil && kind == "OCIRepository" {
		chart, version := im.artifact(source)
		if version != "" {
			chart += ":" + version
		}
		g.v.Get("spec", "sourceRef").Changed("if there is no kustomization.yaml, name it in files of the step", "Flux applies %s with or without a kustomization.yaml, the plan as an overlay", name)
		return chart + "//" + strings.TrimPrefix(path.Clean(folder), "./")
	}
	hint := "name its files to kplan import too, or let the path lead to a folder of a checkout"
	if url := sourceURL(source); url != "" {
		hint = "check out " + url + " beside the plan, and let the path lead there"
	}
	at := g.v.Get("spec", "path")
	if !at.Given() {
		at = ref.Get("name")
	}
	at.Lost(hint, "the folder %s of the %s %s is not at hand: what is in it is not known", cmp.Or(folder, "./"), kind, name)
	if path.Clean(folder) == "." {
		return foreign.FillIn
	}
	return strings.TrimSuffix(folder, "/")
}

// applied fills in what the Kustomization says of a step that applies objects.
func (im *importer) applied(g *group, s *foreign.Step) {
	if s == nil {
		return
	}
	g.steps = append(g.steps, s)
	if g.v == nil {
		return
	}
	spec := g.v.Get("spec")
	s.Cluster = g.cluster
	if spec.Get("targetNamespace").Given() {
		s.Fields.Set("namespace", spec.Get("targetNamespace").Text())
	}
	if spec.Get("prune").Or(false) {
		s.Fields.Set("prune", true)
	}
	if spec.Get("force").Or(false) {
		s.Fields.Set("on_immutable", "recreate")
	}
	if spec.Get("wait").Or(false) {
		s.Fields.Set("wait", "ready")
	}
	s.Timeout = duration(spec.Get("timeout"))
	g.substituteApplied(s)
}

// healthChecks makes a step of each object that the Kustomization waits for, unless it
// waits for all.
func (im *importer) healthChecks(g *group) {
	if g.v == nil {
		return
	}
	spec := g.v.Get("spec")
	steps := slices.Clone(g.steps)
	for _, check := range spec.Get("healthChecks").Items() {
		kind, name, namespace := check.Get("kind").Text(), check.Get("name").Text(), check.Get("namespace").Text()
		group, _, found := strings.Cut(check.Get("apiVersion").Text(), "/")
		if kind == "HelmRelease" || spec.Get("wait").Or(false) || kind == "" || name == "" {
			check.Take() // a helm step is done when its release is
			continue
		}
		resource := strings.ToLower(kind)
		if found {
			resource += "." + group
		}
		s := &foreign.Step{Kind: plan.KindWait, Cluster: g.cluster, Timeout: duration(spec.Get("timeout"))}
		s.Fields.Set("resource", resource+"/"+name)
		s.Fields.Set("namespace", namespace)
		s.Fields.Set("for", "ready")
		for _, other := range steps {
			s.Need(other, "")
		}
		g.steps = append(g.steps, im.plan.Add(s, name+"-ready", namespace+"-"+name+"-ready"))
	}
}

// kustomization takes what a Kustomization says for all of its steps.
func (im *importer) kustomization(g *group) {
	g.v.TakeHead()
	spec := g.v.Get("spec")
	if g.v.Version != "v1" {
		g.v.Get("apiVersion").Changed("", "%s is read as v1", g.v.Version)
	}
	for _, name := range []string{"interval", "retryInterval", "path", "sourceRef", "prune", "wait", "force", "timeout"} {
		spec.Get(name).Take()
	}
	if spec.Get("suspend").Or(false) {
		spec.Get("suspend").Changed("take its steps out, or give them when: false", "the Kustomization is suspended, and its steps are in the plan all the same")
	}
	g.cluster = im.remote(spec.Get("kubeConfig"), g.namespace)
	if d := spec.Get("decryption"); d.Get("provider").Text() == "sops" {
		d.Take()
		im.result.Before("give the age key of what SOPS encrypted: SOPS_AGE_KEY_FILE. Files for PGP or a key service have to be decrypted first")
	}
	im.postBuild(g, spec.Get("postBuild"))
}
