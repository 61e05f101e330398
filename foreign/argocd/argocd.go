// Package argocd makes a plan of the Applications of Argo CD: each source becomes a helm
// step or an apply step, and sync waves become needs.
//
// Applications of an app of apps are followed where their files are at hand. An overlay
// that changes them is built, where somebody builds it. What an
// ApplicationSet generates and what a plugin renders is not known here: what the cluster
// has made of them is read as well.
//
// The fields are those of Argo CD 3.1 (pkg/apis/application/v1alpha1/types.go).
package argocd

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// About says what is in the plan, for the help of the command.
const About = `Read Applications of Argo CD from files, folders or 'kubectl get … -o yaml', and write a plan of what they install.

A source with a chart becomes a helm step: version, values, valuesObject, valueFiles, parameters, releaseName, and values files of another
source ($REF/PATH) where that is at hand. A path in a repository becomes a helm step when there is a chart, else an apply step. Sync waves
of Applications become needs. Destinations become clusters. An overlay that changes Applications is built as kustomize does.

What an ApplicationSet generates is read from the cluster: kubectl get applications -n argocd -o yaml | kplan import argocd -`

// group is the API group of Argo CD, and of other projects of Argo.
const group = "argoproj.io"

// isOwn reports whether an object is of a kind of Argo CD.
func isOwn(o *object.Object) bool {
	return o.Group == group && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, o.Kind)
}

// importer makes one plan.
type importer struct {
	in      foreign.Input
	result  *foreign.Result
	plan    *foreign.Plan
	objects []*object.Object
	// read is how many of the objects were looked at for Applications.
	read int
	// apps are in the order of the files.
	apps []*application
	// namespaces are the steps that make them, by CLUSTER/NAME.
	namespaces map[string]*foreign.Step
	// overlays are those of folders that were looked at; nil for one without.
	overlays map[string]*overlay
	// replaced are the objects in whose place there are those of an overlay that was built.
	replaced map[*object.Object]bool
}

// Import makes a plan of Applications.
func Import(in foreign.Input) (*foreign.Result, error) {
	im := &importer{in: in, result: &foreign.Result{}, plan: &foreign.Plan{Name: in.Name}, namespaces: map[string]*foreign.Step{}, overlays: map[string]*overlay{}, replaced: map[*object.Object]bool{}}
	im.result.Plan = im.plan
	var err error
	if im.objects, err = object.ReadAll(in, &im.result.Report); err != nil {
		return nil, err
	}
	im.readOverlays()
	im.readApplications()
	for i := 0; i < len(im.apps); i++ { // an overlay may lead to more
		im.apps[i].steps()
	}
	im.leftOverlays()
	im.own()
	im.others()
	if err := im.result.Filled("there is no Application of Argo CD in it"); err != nil {
		return nil, err
	}
	im.orderWaves()
	im.sayFirst()
	for _, o := range im.objects {
		o.Leftovers(losses)
	}
	if im.plan.Name == "" {
		im.plan.Name = im.name()
	}
	return im.result, nil
}

// readApplications reads what is said of the Applications that are not read yet.
func (im *importer) readApplications() {
	for ; im.read < len(im.objects); im.read++ {
		o := im.objects[im.read]
		if !o.Is(group, "Application") || im.replaced[o] {
			continue
		}
		switch {
		case im.isPatch(o.File):
			o.Take()
		case slices.ContainsFunc(im.apps, func(a *application) bool { return a.v.Name == o.Name && a.v.Namespace == o.Namespace }):
			o.Lost("import the files of one cluster at a time", "there are two of %s, and this one is not imported", o)
		default:
			im.apps = append(im.apps, im.application(o))
		}
	}
}

// name is that of the only Application, or what the file is called.
func (im *importer) name() string {
	switch {
	case len(im.apps) == 1:
		return im.apps[0].v.Name
	case len(im.in.Files) == 1 && im.in.Files[0].Name != "stdin":
		return strings.TrimSuffix(path.Base(im.in.Files[0].Name), path.Ext(im.in.Files[0].Name))
	}
	return "argocd"
}

// own tells of the other kinds of Argo CD.
func (im *importer) own() {
	for _, o := range im.objects {
		switch {
		case im.replaced[o]:
		case o.Is(group, "ApplicationSet"):
			o.Lost("import what it makes: kubectl get applications -n "+cmp.Or(o.Namespace, "argocd")+" -o yaml | kplan import argocd -", "what the ApplicationSet %s generates is not known here, and not imported", o.Name)
		case o.Is(group, "AppProject"):
			o.Lost("kplan can do what the kubeconfig allows: kplan rbac prints the least rights", "what the AppProject %s allows is not imported", o.Name)
		case o.Kind == "Secret" && strings.HasPrefix(o.Get("metadata", "labels", "argocd.argoproj.io/secret-type").Peek(), "repo"):
			o.Lost("declare it under repositories of the plan", "the login of the repository in the Secret %s is not copied", o.Name)
		}
	}
}

// others applies objects that lie in the files and belong to no Application.
func (im *importer) others() {
	var rest []*object.Object
	for _, o := range im.objects {
		if !isOwn(o) && !im.isTaken(o) && !im.replaced[o] {
			rest = append(rest, o)
		}
	}
	im.hooks(rest)
	all := object.Rest{Plan: im.plan, Report: &im.result.Report, In: im.in, Objects: rest, Name: "objects", All: im.objects}
	first, last := all.Own(), all.Custom()
	for _, a := range im.apps {
		for _, s := range a.made {
			if first != nil {
				s.Need(first, "")
			}
			if last != nil {
				last.Need(s, "")
			}
		}
	}
}

// isTaken reports whether an object is of a folder that an Application applies, or is
// told of already.
func (im *importer) isTaken(o *object.Object) bool {
	if o.Get("metadata", "labels", "argocd.argoproj.io/secret-type").Given() || im.inOverlay(o.File) {
		return true
	}
	return slices.ContainsFunc(im.apps, func(a *application) bool { return slices.Contains(a.members, o) })
}

// hooks tells of objects that Argo CD makes at a moment of its sync.
func (im *importer) hooks(objects []*object.Object) {
	for _, o := range objects {
		annotations := o.Get("metadata", "annotations")
		if h := annotations.Get("argocd.argoproj.io/hook"); h.Given() {
			h.Lost("make a step of it, before or after the others", "%s is a hook of Argo CD (%s), and is applied with the others", o, h.Peek())
		}
		if w := annotations.Get("argocd.argoproj.io/sync-wave"); w.Given() && w.Peek() != "0" {
			w.Changed("make steps of them that need each other, if they have to", "the sync wave of %s is not imported: kplan sends objects in the order of their kinds", o)
		}
	}
}

// orderWaves lets Applications of a sync wave come after those of the waves before.
func (im *importer) orderWaves() {
	waves := map[int][]*application{}
	for _, a := range im.apps {
		if len(a.made) > 0 {
			waves[a.wave] = append(waves[a.wave], a)
		}
	}
	var before []*application
	for _, wave := range slices.Sorted(maps.Keys(waves)) {
		for _, a := range waves[wave] {
			for _, b := range before {
				for _, s := range a.made {
					for _, need := range b.made {
						s.Need(need, "sync wave "+strconv.Itoa(b.wave))
					}
				}
			}
		}
		before = waves[wave]
	}
}

// sayFirst says what to do before the first run, and after it.
func (im *importer) sayFirst() {
	var names, automated []string
	for _, followed := range []bool{true, false} { // those with Applications come first: they would put these back
		for _, a := range im.apps {
			if a.followed != followed || len(a.made) == 0 && !a.followed {
				continue
			}
			names = append(names, a.v.Name)
			if a.automated {
				automated = append(automated, a.v.Name)
			}
		}
	}
	switch len(automated) {
	case 0:
	case 1:
		im.result.Before("argocd app set %s --sync-policy none: Argo CD would put back what the plan changes", automated[0])
	default:
		im.result.Before("for app in %s; do argocd app set $app --sync-policy none; done: Argo CD would put back what the plan changes", strings.Join(automated, " "))
	}
	im.result.Before("kplan diff the plan, then run it. Argo CD leaves no Helm release: the first run makes one, and takes over the objects that are there (take_ownership)")
	if len(names) > 0 {
		im.result.Before("after the run, delete the Applications without what they installed: argocd app delete --cascade=false %s", strings.Join(names, " "))
	}
}
