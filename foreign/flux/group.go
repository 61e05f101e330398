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
	// vars are those of postBuild: the plan's by Flux's names.
	substitutes bool
}

func (g *group) namespaceOr(other string) string { return cmp.Or(g.namespace, other) }

// readGroups finds the Kustomizations, and what is in each.
func (im *importer) readGroups() {
	for i := 0; i < len(im.tree.objects); i++ { // following one may bring more
		o := im.tree.objects[i]
		if !o.Is(kustomizeGroup, "Kustomization") {
			continue
		}
		g := &group{v: o, name: o.Name, namespace: o.Namespace, found: &found{}}
		if im.group(g.name, g.namespace) != nil {
			o.Lost("import the files of one cluster at a time", "there are two of %s, and this one is not imported", o)
			continue
		}
		within := im.folder(o.Get("spec", "sourceRef"), g.namespace, o.Get("spec", "path").Peek())
		if g.dir = im.resolve(o.File, within, nil); g.dir != "" {
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
	rest := &group{name: "objects"}
	for _, o := range im.tree.objects {
		if o.Group == sourceGroup || o.Is(kustomizeGroup, "Kustomization") {
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
			g.v.Get("spec", "path").Lost("import the files of one cluster at a time", "%s is in the Kustomization %s already, and is in the plan once", o, owner.name)
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
	case im.tree.overlays[g.dir] != nil:
		s.Fields.Set("kustomize", im.in.FromPlan(g.dir))
		for _, dir := range g.found.folders {
			im.tree.whole[dir] = true
		}
		for _, o := range rest {
			o.Take()
		}
	default:
		s = object.Rest{Plan: im.plan, Report: &im.result.Report, In: im.in, Objects: rest, Name: g.name, All: im.tree.objects}.Any()
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
		return chart + "//" + strings.TrimPrefix(path.Clean(folder), "./")
	}
	hint := "name its files to kplan import too, or let the path lead to a folder of a checkout"
	if url := sourceURL(source); url != "" {
		hint = "check out " + url + " beside the plan, and let the path lead there"
	}
	g.v.Get("spec", "path").Lost(hint, "the folder %s of the %s %s is not at hand: what is in it is not known", folder, kind, name)
	return cmp.Or(strings.TrimSuffix(folder, "/"), foreign.FillIn)
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
	if g.substitutes {
		spec.Get("postBuild").Lost("write ${{ vars.NAME }} into the files and give the step evaluate: true", "${NAME} in the files of the step %s is sent as it is", s.Name)
	}
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

// orderGroups lets the steps of a Kustomization come after those that it depends on.
func (im *importer) orderGroups() {
	for _, g := range im.groups {
		if g.v == nil {
			continue
		}
		for _, d := range g.v.Get("spec", "dependsOn").Items() {
			name := d.Get("name").Text()
			other := im.group(name, cmp.Or(d.Get("namespace").Text(), g.namespace))
			if other == nil {
				d.Lost("import its files too, or be sure that it was applied before", "the Kustomization %s is not in the files", name)
				continue
			}
			for _, last := range im.lastOf(other, nil) {
				for _, first := range g.firsts() {
					if !reaches(last, first) {
						first.Need(last, "")
					}
				}
			}
		}
	}
}

// firsts are the steps of a group that need no other of it.
func (g *group) firsts() []*foreign.Step {
	return slices.DeleteFunc(slices.Clone(g.steps), func(s *foreign.Step) bool {
		return slices.ContainsFunc(s.Needs, func(n foreign.Need) bool { return slices.Contains(g.steps, n.Step) })
	})
}

// lastOf are the steps of a group that no other of it needs; of one without steps those
// of the groups that it depends on.
func (im *importer) lastOf(g *group, within []*group) []*foreign.Step {
	if len(g.steps) == 0 && !slices.Contains(within, g) {
		var all []*foreign.Step
		for _, d := range g.v.Get("spec", "dependsOn").Items() {
			if other := im.group(d.Get("name").Peek(), cmp.Or(d.Get("namespace").Peek(), g.namespace)); other != nil {
				all = append(all, im.lastOf(other, append(within, g))...)
			}
		}
		return all
	}
	return slices.DeleteFunc(slices.Clone(g.steps), func(s *foreign.Step) bool {
		return slices.ContainsFunc(g.steps, func(other *foreign.Step) bool {
			return slices.ContainsFunc(other.Needs, func(n foreign.Need) bool { return n.Step == s })
		})
	})
}

// reaches reports whether a step needs another one, directly or not: needing it in turn
// would be a circle.
func reaches(s, other *foreign.Step) bool {
	seen := map[*foreign.Step]bool{}
	var walk func(s *foreign.Step) bool
	walk = func(s *foreign.Step) bool {
		if s == other {
			return true
		}
		if seen[s] {
			return false
		}
		seen[s] = true
		return slices.ContainsFunc(s.Needs, func(n foreign.Need) bool { return walk(n.Step) })
	}
	return walk(s)
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
	build := spec.Get("postBuild")
	for _, v := range build.Get("substitute").Fields() {
		g.substitutes = true
		f := im.plan.Var(variable(v.Name()), "")
		if f.Value("default") == nil && f.Value("sensitive") == nil {
			f.Keep("default", im.plan.Values(v.Name(), v))
		}
		v.Take()
	}
	for _, from := range build.Get("substituteFrom").Items() {
		g.substitutes = true
		from.Lost("give each as a variable: --set, a var file, or secret or config_map of the variable where it is needed late", "values of the %s %s are not known here", from.Get("kind").Peek(), from.Get("name").Peek())
	}
}
