// Package flux makes a plan of what Flux installs: HelmReleases with the repositories of
// their charts, and Kustomizations with what they apply.
//
// A Kustomization is followed into its folder, where that is at hand, and so are the
// resources of kustomization.yaml files. An overlay that changes objects of Flux is built,
// where somebody builds it; else its patches are told of, and what kustomize build prints
// is read as well.
//
// The fields are those of helm-controller 1.6 (HelmRelease v2), kustomize-controller and
// source-controller 1.9.
package flux

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// About says what is in the plan, for the help of the command.
const About = `Read objects of Flux from files, folders or 'kubectl get … -o yaml', and write a plan of what they install.

HelmReleases become helm steps: chart and version by HelmRepository or OCIRepository, values, valuesFrom, dependsOn, timeout, retries, CRDs.
A Kustomization is followed into its folder: HelmReleases there come after those of Kustomizations that it depends on, and other objects
become apply steps. One whose folder has no HelmRelease is an apply step. ${NAME} of postBuild becomes a variable.

An overlay that changes objects of Flux, such as by a patch of a HelmRelease, is built as kustomize does: nothing is fetched, and no plugin
is run. What 'kustomize build FOLDER' prints is read as well. Patches of a Kustomization of Flux itself are told of.`

// The API groups of Flux.
const (
	helmGroup      = "helm.toolkit.fluxcd.io"
	kustomizeGroup = "kustomize.toolkit.fluxcd.io"
	sourceGroup    = "source.toolkit.fluxcd.io"
)

// maxFiles bounds how many files one import reads.
const maxFiles = 2000

// importer makes one plan.
type importer struct {
	in     foreign.Input
	result *foreign.Result
	plan   *foreign.Plan
	tree   *tree
	// groups are the Kustomizations, in their order; the last is of what is in none.
	groups []*group
	// releases are by NAMESPACE/NAME of the HelmRelease.
	releases map[string]*release
	order    []*release
	// sources are by KIND/NAMESPACE/NAME.
	sources map[string]*object.Object
	// asked are the sources that something of the plan comes from.
	asked   map[*object.Object]bool
	aliases map[string]string
	// remotes are the plan's clusters, by NAMESPACE/NAME/KEY of the Secret.
	remotes map[string]string
	// meant says of variables of postBuild what they stand for, by their names.
	meant map[string]string
}

// Import makes a plan of objects of Flux.
func Import(in foreign.Input) (*foreign.Result, error) {
	im := &importer{
		in: in, result: &foreign.Result{}, plan: &foreign.Plan{Name: in.Name},
		releases: map[string]*release{}, sources: map[string]*object.Object{}, asked: map[*object.Object]bool{}, aliases: map[string]string{}, remotes: map[string]string{}, meant: map[string]string{},
	}
	im.result.Plan = im.plan
	objects, err := object.ReadAll(in, &im.result.Report)
	if err != nil {
		return nil, err
	}
	im.tree = newTree(im, objects)
	im.readGroups()
	im.readSources()
	for _, g := range im.groups {
		im.importGroup(g)
	}
	if err := im.result.Filled("there is no HelmRelease or Kustomization of Flux in it"); err != nil {
		return nil, err
	}
	for _, r := range im.order {
		r.depend()
	}
	im.orderGroups()
	im.sayFirst()
	im.tree.leftovers()
	if im.plan.Name == "" {
		im.plan.Name = im.name()
	}
	return im.result, nil
}

// name is the plan's: that of the only Kustomization or release, or what the file is
// called.
func (im *importer) name() string {
	switch {
	case len(im.groups) == 2:
		return im.groups[0].name
	case len(im.order) == 1:
		return im.order[0].name
	case len(im.in.Files) == 1:
		return strings.TrimSuffix(path.Base(im.in.Files[0].Name), path.Ext(im.in.Files[0].Name))
	}
	return "flux"
}

// readSources takes where charts and manifests come from.
func (im *importer) readSources() {
	for _, o := range im.tree.objects {
		if o.Group != sourceGroup || im.tree.replaced[o] {
			continue
		}
		key := o.Kind + "/" + im.tree.namespace(o) + "/" + o.Name
		if im.sources[key] != nil {
			o.Lost("import the files of one cluster at a time", "there are two of %s, and this one is not imported", o)
			continue
		}
		im.sources[key] = o
	}
}

// source is one of a kind. A namespace that is not given is that of who asks.
func (im *importer) source(ref *foreign.Value, namespace string) (kind, name string, o *object.Object) {
	kind, name = ref.Get("kind").Text(), ref.Get("name").Text()
	ref.Get("apiVersion").Take()
	if own := ref.Get("namespace").Text(); own != "" {
		namespace = own
	}
	o = im.sources[kind+"/"+namespace+"/"+name]
	for _, key := range slices.Sorted(maps.Keys(im.sources)) { // files often leave the namespace to an overlay
		if k, rest, _ := strings.Cut(key, "/"); o == nil && k == kind && path.Base(rest) == name && (strings.HasPrefix(rest, "/") || namespace == "") {
			o = im.sources[key]
		}
	}
	if o != nil {
		im.asked[o] = true
		if kind != "HelmRepository" && kind != "OCIRepository" {
			o.Take() // who needs what is in it is told where it is
		}
	}
	return kind, name, o
}

// sayFirst says what to do before the first run.
func (im *importer) sayFirst() {
	var groups, releases suspended
	for _, g := range im.groups {
		if g.v != nil {
			groups.add(g.namespaceOr("flux-system"), g.name)
		}
	}
	for _, r := range im.order {
		releases.add(r.objectNamespace, r.objectName)
	}
	groups.say("kustomization", &im.result.Report)
	releases.say("helmrelease", &im.result.Report)
	if len(groups.names)+len(releases.names) > 0 {
		im.result.Before("kplan diff the plan, then run it. A HelmRelease or Kustomization that is suspended can be deleted afterwards: Flux then uninstalls nothing")
	}
}

// suspended are the names of objects that Flux is not to reconcile, by their namespaces.
type suspended struct {
	namespaces []string
	names      map[string][]string
}

func (s *suspended) add(namespace, name string) {
	if s.names == nil {
		s.names = map[string][]string{}
	}
	if !slices.Contains(s.namespaces, namespace) {
		s.namespaces = append(s.namespaces, namespace)
	}
	s.names[namespace] = append(s.names[namespace], name)
}

// say has a command for each namespace.
func (s *suspended) say(kind string, r *foreign.Report) {
	for _, ns := range s.namespaces {
		where := ""
		if ns != "" {
			where = " -n " + ns
		}
		r.Before("flux suspend %s %s%s", kind, strings.Join(s.names[ns], " "), where)
	}
}

// remote is the plan's cluster with a kubeconfig in a Secret; "" for none.
func (im *importer) remote(v *foreign.Value, namespace string) string {
	ref := v.Get("secretRef")
	if !ref.Given() {
		return ""
	}
	name, key := ref.Get("name").Text(), cmp.Or(ref.Get("key").Text(), "value")
	namespace = cmp.Or(namespace, "flux-system")
	id := strings.Join([]string{namespace, name, key}, "/")
	if known := im.remotes[id]; known != "" {
		return known
	}
	if im.plan.Clusters.Value("management") == nil {
		im.plan.Clusters.Keep("management", (&foreign.Fields{}).Node())
	}
	short := cmp.Or(strings.TrimSuffix(name, "-kubeconfig"), "remote")
	if key != "value" {
		short += "-" + key
	}
	label := im.plan.FreeCluster(short, namespace+"-"+short)
	var secret, c foreign.Fields
	secret.Set("cluster", "management")
	secret.Set("namespace", namespace)
	secret.Set("name", name)
	secret.Set("key", key)
	c.Set("kubeconfig_secret", &secret)
	im.plan.Clusters.Set(label, &c)
	im.remotes[id] = label
	return label
}
