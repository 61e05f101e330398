package helm

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Extent is what of a release there is, and what of it goes.
type Extent struct {
	// Chart and Version are those of the newest revision's chart.
	Chart, Version string
	// Status is as helm list shows it.
	Status string
	// Adopted says that kplan did not make the release, but came to it later.
	Adopted bool
	// Plan is the name of the plan that made the newest revision; "" for none.
	Plan string
	// Orphans are custom resources that somebody else made and whose definitions go.
	Orphans []removal.Object
	// Kept are the objects that stay.
	Kept []removal.Kept
	// Programs are those that the release runs, as field managers name them.
	Programs []string

	// Spaces are the namespaces among the release's own objects.
	Spaces []Space

	objects, hooks, definitions []removal.Object
}

// Goes are the objects that go, in no certain order.
func (e *Extent) Goes() []removal.Object {
	all := slices.Concat(e.objects, e.hooks, e.definitions)
	for _, s := range e.Spaces {
		if len(s.Foreign) == 0 {
			all = append(all, s.Object)
		}
	}
	return all
}

// Extent reads what there is of the release; nil when it is not there.
func (u Uninstall) Extent(ctx context.Context, s *cluster.Session) (*Extent, error) {
	conn, all, err := u.open(ctx, s, silent{})
	if err != nil {
		return nil, err
	}
	defer conn.client.order.Close()
	if len(all) == 0 {
		return nil, nil
	}
	return u.extent(ctx, s, all)
}

func (u Uninstall) extent(ctx context.Context, s *cluster.Session, all history) (*Extent, error) {
	last := all.last()
	e := &Extent{Status: last.Info.Status.String(), Adopted: adopted(all), Plan: last.Labels[planLabel]}
	if last.Chart != nil && last.Chart.Metadata != nil {
		e.Chart, e.Version = last.Chart.Metadata.Name, last.Chart.Metadata.Version
	}
	sent, err := manifestsOf(all)
	if err != nil {
		return nil, err
	}
	e.Programs = programs(slices.Concat(sent.objects, sent.hooks))
	if err := u.own(ctx, s, e, sent); err != nil {
		return nil, err
	}
	for _, o := range e.hooks {
		if removal.IsKept(o) {
			e.keep(o, keepPolicy)
		}
	}
	e.hooks = slices.DeleteFunc(e.hooks, removal.IsKept)
	defined, err := removal.Find(ctx, s, sent.definitions, "")
	if err != nil {
		return nil, err
	}
	if u.CRDs && len(defined) > 0 {
		if defined, err = u.unshared(ctx, s, e, defined); err != nil {
			return nil, err
		}
	}
	if err := u.instances(ctx, s, e, defined); err != nil {
		return nil, err
	}
	if u.CRDs {
		e.definitions = defined
	} else {
		for _, o := range defined {
			e.keep(o, removal.DefinitionsStay)
		}
	}
	return e, u.occupy(ctx, s, e)
}

const keepPolicy = "its chart says helm.sh/resource-policy: keep"

func (e *Extent) keep(o removal.Object, reason string) {
	e.Kept = append(e.Kept, removal.Kept{Object: o.ID(), Reason: reason})
}

// own reads the objects of the manifest and of the hooks.
func (u Uninstall) own(ctx context.Context, s *cluster.Session, e *Extent, sent manifests) error {
	live, err := removal.Find(ctx, s, sent.objects, u.Namespace)
	if err != nil {
		return err
	}
	for _, o := range live {
		of := removal.ReleaseOf(o)
		switch {
		case of != "" && of != u.Namespace+"/"+u.Name:
			e.keep(o, "it belongs to release "+of)
		case removal.IsKept(o):
			e.keep(o, keepPolicy)
		case removal.Later(o.GroupVersionKind().GroupKind()):
			e.Spaces = append(e.Spaces, Space{Object: o})
		default:
			e.objects = append(e.objects, o)
		}
	}
	hooks, err := removal.Find(ctx, s, sent.hooks, u.Namespace)
	if err != nil {
		return err
	}
	for _, o := range hooks {
		i := slices.IndexFunc(sent.hooks, func(h *unstructured.Unstructured) bool {
			return h.GroupVersionKind().GroupKind() == o.GroupVersionKind().GroupKind() && h.GetName() == o.GetName()
		})
		// Hooks bear no other mark of their release.
		if i < 0 || !contains(o.GetLabels(), sent.hooks[i].GetLabels()) || slices.ContainsFunc(e.objects, sameAs(o)) {
			continue
		}
		if removal.Later(o.GroupVersionKind().GroupKind()) && !removal.IsKept(o) {
			e.Spaces = append(e.Spaces, Space{Object: o})
		} else {
			e.hooks = append(e.hooks, o)
		}
	}
	return nil
}

// unshared leaves out the definitions that other releases brought too: those of a
// chart's crds folder bear no mark of a release.
func (u Uninstall) unshared(ctx context.Context, s *cluster.Session, e *Extent, defined []removal.Object) ([]removal.Object, error) {
	all, err := List(ctx, s.Clientset, "")
	if all == nil && err != nil {
		return nil, err // what some of them hold cannot be read is theirs to say
	}
	others := map[string]string{}
	for _, r := range all {
		name := r.Namespace + "/" + r.Name
		if name == u.Namespace+"/"+u.Name || slices.Contains(u.Beside, name) {
			continue
		}
		for _, o := range r.Objects {
			if kinds.IsDefinition(o) {
				others[o.GetName()] = name
			}
		}
	}
	return slices.DeleteFunc(defined, func(o removal.Object) bool {
		other := others[o.GetName()]
		if other != "" {
			e.keep(o, "release "+other+" has it too")
		}
		return other != ""
	}), nil
}

// instances looks for custom resources of the kinds that the release defines and that
// are not among its own objects. What its own programs made goes. What somebody else
// made goes with the definitions alone.
func (u Uninstall) instances(ctx context.Context, s *cluster.Session, e *Extent, defined []removal.Object) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	var found []removal.Object
	for _, crd := range defined {
		group.Go(func() error {
			all, err := removal.Instances(ctx, s, crd.Unstructured)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, all...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b removal.Object) int { return strings.Compare(a.ID(), b.ID()) })
	for _, o := range found {
		mine := slices.ContainsFunc(e.objects, sameAs(o)) || slices.ContainsFunc(e.hooks, sameAs(o))
		by := removal.Makers(o)
		switch {
		case mine, len(o.GetOwnerReferences()) > 0: // those go with their owner
		case slices.Contains(e.kept(), o.ID()):
		case len(by) > 0 && !slices.ContainsFunc(by, func(m string) bool { return !slices.Contains(e.Programs, m) }):
			o.Why = "made by " + strings.Join(by, " and ")
			e.objects = append(e.objects, o)
		case u.CRDs:
			o.Why = removal.DefinitionGoes
			e.Orphans = append(e.Orphans, o)
		default:
			e.keep(o, fmt.Sprintf("made by %s, not by the release; nobody will serve it any more", strings.Join(by, " and ")))
		}
	}
	return nil
}

func (e *Extent) kept() []string {
	var ids []string
	for _, k := range e.Kept {
		ids = append(ids, k.Object)
	}
	return ids
}

// sameAs returns what reports whether another object is the same one.
func sameAs(o removal.Object) func(removal.Object) bool {
	return func(other removal.Object) bool { return other.GetUID() == o.GetUID() }
}

// manifests are the objects of a release as they were sent.
type manifests struct{ objects, hooks, definitions []*unstructured.Unstructured }

// manifestsOf reads those of the newest revision, and of the deployed one: what a
// failed upgrade was to delete may still be there.
func manifestsOf(all history) (manifests, error) {
	var m manifests
	revisions := []*engine.Release{all.last()}
	if d := all.deployed(); d != nil && d != all.last() {
		revisions = append(revisions, d)
	}
	for _, r := range revisions {
		if err := m.add(r.Manifest, &m.objects); err != nil {
			return m, fmt.Errorf("reading the manifest of revision %d: %w", r.Version, err)
		}
		for _, h := range r.Hooks {
			if err := m.add(h.Manifest, &m.hooks); err != nil {
				return m, fmt.Errorf("reading a hook of revision %d: %w", r.Version, err)
			}
		}
		if r.Chart == nil {
			continue
		}
		for _, crd := range r.Chart.CRDObjects() {
			if err := m.add(string(crd.File.Data), &m.definitions); err != nil {
				return m, fmt.Errorf("reading the crds folder of revision %d: %w", r.Version, err)
			}
		}
	}
	return m, nil
}

// add reads the objects of a text into one list, definitions into their own.
func (m *manifests) add(text string, to *[]*unstructured.Unstructured) error {
	objects, err := charts.Decode(text)
	for _, o := range objects {
		list := to
		if kinds.IsDefinition(o) {
			list = &m.definitions
		}
		known := slices.ContainsFunc(*list, func(other *unstructured.Unstructured) bool {
			return other.GroupVersionKind().GroupKind() == o.GroupVersionKind().GroupKind() &&
				other.GetNamespace() == o.GetNamespace() && other.GetName() == o.GetName()
		})
		if !known {
			*list = append(*list, o)
		}
	}
	return err
}

// adopted reports whether somebody else made a release that kplan works on. It cannot
// be told once the first revisions are forgotten.
func adopted(all history) bool {
	first := all[len(all)-1]
	return first.Version == 1 && first.Labels[inputsLabel] == ""
}

// programs are the names under which the programs of workloads write objects: a
// client's default field manager is the name of its program.
func programs(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, o := range objects {
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		for _, at := range [][]string{{"template", "spec"}, {"jobTemplate", "spec", "template", "spec"}, {}} {
			pod := spec
			if len(at) > 0 {
				pod, _, _ = unstructured.NestedMap(spec, at...)
			}
			for _, field := range []string{"containers", "initContainers"} {
				list, _, _ := unstructured.NestedSlice(pod, field)
				for _, c := range list {
					names = append(names, programsOf(c)...)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func programsOf(container any) []string {
	c, _ := container.(map[string]any)
	name, _ := c["name"].(string)
	image, _ := c["image"].(string)
	image, _, _ = strings.Cut(path.Base(image), "@")
	image, _, _ = strings.Cut(image, ":")
	names := []string{name, image}
	if command, _ := c["command"].([]any); len(command) > 0 {
		program, _ := command[0].(string)
		names = append(names, path.Base(program))
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" || n == "." || removal.IsTool(n) || removal.IsCommon(n) })
}
