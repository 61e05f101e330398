package teardown

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// found is what there is of a step.
type found struct {
	step    plan.Step
	cluster string
	// past is what earlier runs did of the step; nil when nobody knows. former says
	// that the plan does not have the step any more.
	past   *ledger.Step
	former bool
	// release and chart are those of a release that is there.
	release, chart string
	releaseName    runner.Release
	// planned is the release that the step is known to be of beforehand.
	planned runner.Release
	goes    []removal.Object
	kept    []Kept
	// orphans are custom resources of somebody else whose definition goes.
	orphans []removal.Object
	// spaces are the namespaces among the objects of the release.
	spaces []helm.Space
	// namespaces are those that the step made, programs what it runs.
	namespaces, programs []string
	note                 string
}

// there reports whether there is anything to take away.
func (f *found) there() bool { return f.release != "" || len(f.goes) > 0 }

// whenFalse reports whether the step is not run because of its when: an earlier run
// with other values may have run it.
func (f *found) whenFalse() bool { return f.step.When == false }

func (f *found) keep(o removal.Object, reason string) {
	f.kept = append(f.kept, Kept{Object: o.ID(), Reason: reason})
}

// step looks what there is of one step.
func (l *look) step(ctx context.Context, f *found) error {
	kind := f.step.Kind()
	if kind != plan.KindHelm && kind != plan.KindApply && !f.former {
		return nil
	}
	if err := l.absent[f.cluster]; err != nil {
		f.note = fmt.Sprintf("its cluster is not there: %v", err)
		return nil
	}
	session := l.sessions[f.cluster]
	if session == nil { // no step that runs works on the cluster
		return nil
	}
	known := !f.former
	if known && len(f.step.Deferred()) > 0 {
		bound, err := l.bind(ctx, f.step)
		if err == nil {
			bound.Name, bound.Skip = f.step.Name, cmp.Or(f.step.Skip, bound.Skip)
			f.step = bound
		} else if known = false; f.past == nil {
			f.note = fmt.Sprintf("what it made is not known any more: %v", err)
		}
	}
	switch past := f.past; {
	case known && kind == plan.KindHelm:
		namespace := cmp.Or(f.step.Helm.Namespace, session.Cluster.Namespace())
		return l.ofRelease(ctx, session, f, runner.Release{Namespace: namespace, Name: f.step.ReleaseName()})
	case known:
		return l.applied(ctx, session, f, known)
	case past != nil && past.Release != nil:
		return l.ofRelease(ctx, session, f, *past.Release)
	}
	return l.applied(ctx, session, f, known)
}

// ofRelease looks at a helm step.
func (l *look) ofRelease(ctx context.Context, s *cluster.Session, f *found, r runner.Release) error {
	u := helm.Uninstall{Name: r.Name, Namespace: r.Namespace, CRDs: l.DeleteCRDs, Beside: l.beside(f.cluster)}
	e, err := u.Extent(ctx, s)
	if err != nil {
		return err
	}
	if f.step.Helm == nil || f.step.Helm.CreateNamespace {
		f.namespaces = append(f.namespaces, r.Namespace)
	}
	name := r.Namespace + "/" + r.Name
	switch {
	case e == nil:
		return nil
	case e.Plan != "" && e.Plan != l.Plan.Metadata.Name:
		f.kept = []Kept{{Object: "release " + name, Reason: "the plan " + e.Plan + " made it"}}
		return nil
	case e.Adopted:
		f.kept = []Kept{{Object: "release " + name, Reason: "it was there before the plan first worked on it; kplan's delete step, or helm uninstall, takes it away"}}
		return nil
	}
	f.release, f.releaseName, f.chart = name, r, strings.TrimSpace(e.Chart+" "+e.Version)
	f.goes, f.kept, f.orphans, f.spaces, f.programs = e.Goes(), e.Kept, e.Orphans, e.Spaces, e.Programs
	return nil
}

// beside are the releases that go on a cluster, as far as they are known beforehand.
func (l *look) beside(cluster string) []string {
	var all []string
	for _, f := range l.found {
		switch {
		case f.cluster != cluster || !f.goesAt():
		case f.planned.Name != "":
			all = append(all, f.planned.Namespace+"/"+f.planned.Name)
		}
	}
	return all
}

// plans notes the release of a helm step before any is looked at.
func (l *look) plans(f *found) {
	session := l.sessions[f.cluster]
	switch {
	case f.past != nil && f.past.Release != nil:
		f.planned = *f.past.Release
	case f.step.Helm != nil && session != nil:
		f.planned = runner.Release{Namespace: cmp.Or(f.step.Helm.Namespace, session.Cluster.Namespace()), Name: f.step.ReleaseName()}
	}
}

// applied looks at an apply step: its own objects if they are known, and what earlier
// runs applied.
func (l *look) applied(ctx context.Context, s *cluster.Session, f *found, known bool) error {
	var named []*unstructured.Unstructured
	namespace := s.Cluster.Namespace()
	if f.step.Apply != nil && known {
		objects, err := manifest.Read(ctx, f.step, l.Sources)
		switch {
		case err != nil && source.Fetches(f.step) && f.past != nil: // what was applied is known without it
			f.note = fmt.Sprintf("its manifests cannot be read, so only what earlier runs noted goes: %v", err)
		case err != nil:
			return err
		default:
			named, namespace = manifest.Bare(objects), cmp.Or(f.step.Apply.Namespace, namespace)
		}
	}
	made := map[string]bool{}
	var before []runner.Applied
	if f.past != nil {
		before = slices.Concat(f.past.Objects, f.past.Left)
	}
	for _, a := range before {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: a.Group, Version: a.Version, Kind: a.Kind})
		u.SetNamespace(a.Namespace)
		u.SetName(a.Name)
		named = append(named, u)
		made[idOf(a)] = made[idOf(a)] || a.Created
	}
	live, err := removal.Find(ctx, s, named, namespace)
	if err != nil {
		return err
	}
	seen := map[types.UID]bool{} // an object may be in the plan and in the record
	for _, o := range live {
		if seen[o.GetUID()] {
			continue
		}
		seen[o.GetUID()] = true
		if err := l.sort(ctx, s, f, o, made); err != nil {
			return err
		}
	}
	return nil
}

func idOf(a runner.Applied) string {
	return strings.Join(slices.DeleteFunc([]string{a.Kind, a.Namespace, a.Name}, func(s string) bool { return s == "" }), "/")
}

func sameAs(o removal.Object) func(removal.Object) bool {
	return func(other removal.Object) bool { return other.GetUID() == o.GetUID() }
}

// sort decides whether an object that is there goes or stays.
func (l *look) sort(ctx context.Context, s *cluster.Session, f *found, o removal.Object, made map[string]bool) error {
	created, recorded := made[o.ID()]
	applied, by := removal.AppliedBy(o), removal.MadeBy(o)
	switch {
	case !removal.IsApplied(o):
		f.keep(o, "kplan does not apply it; "+cmp.Or(applied, by, "its fields are of "+cmp.Or(list(removal.Makers(o)), "Kubernetes itself")))
	case removal.ReleaseOf(o) != "":
		f.keep(o, "it belongs to release "+removal.ReleaseOf(o))
	case recorded && !created:
		f.keep(o, "it was there before the plan applied it first")
	case applied != "": // by now: whoever made it
		f.keep(o, applied)
	case by != "" && !created:
		f.keep(o, by)
	case removal.Later(o.GroupVersionKind().GroupKind()):
		f.namespaces = append(f.namespaces, o.GetName())
	case kinds.IsDefinition(o.Unstructured) && !l.DeleteCRDs:
		f.keep(o, removal.DefinitionsStay)
	case kinds.IsDefinition(o.Unstructured):
		instances, err := removal.Instances(ctx, s, o.Unstructured)
		if err != nil {
			return err
		}
		f.goes = append(f.goes, o)
		for _, i := range instances {
			if len(i.GetOwnerReferences()) == 0 {
				i.Why = removal.DefinitionGoes
				f.orphans = append(f.orphans, i)
			}
		}
	default:
		f.goes = append(f.goes, o)
	}
	return nil
}
