package load

import (
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
)

// checkDelete wants one thing that goes: objects, a resource or a release.
func (v stepValidator) checkDelete(d plan.Delete, at path) {
	v.checkLabel(d.Namespace, at.Key("namespace"))
	v.checkFiles(d.Files, at.Key("files"), d.Evaluate)
	v.checkOverlay(d.Kustomize, at.Key("kustomize"))
	v.checkText(at.Key("release"), "release", "")
	v.checkText(at.Key("resource"), "resource", "")
	objects := !isBare(v.value(at.Key("files")), v.value(at.Key("objects")), v.value(at.Key("kustomize")))
	resource, release := v.has(at.Key("resource")), v.has(at.Key("release"))
	switch {
	case !objects && !resource && !release:
		v.ReportField(fault{At: at, Hint: "give files, objects, kustomize, resource or release"}, "there is nothing to delete")
	case objects && resource, objects && release, resource && release:
		v.ReportField(fault{At: at, Hint: "make a step of each"}, "a delete step takes objects, a resource or a release, and only one of them")
	}
	if v.has(at.Key("selector")) && !resource {
		v.ReportField(fault{At: at.Key("selector"), Hint: "name the TYPE of the objects in resource"}, "a selector needs a resource")
	}
	if v.has(at.Key("delete_crds")) && !release {
		v.ReportField(fault{At: at.Key("delete_crds"), Hint: "remove it: CustomResourceDefinitions that are named go anyway"}, "delete_crds is for a release")
	}
	if d.Release != "" && !names.IsSubdomain(d.Release, maxReleaseName) {
		v.Report(fault{At: at.Key("release")}, "%q cannot be the name of a release", document.Cut(d.Release, 80))
	}
	v.checkResource(d.Resource, d.Selector, at)
	for i := range d.Objects {
		o, _ := v.value(at.Key("objects").Index(i)).(map[string]any)
		v.checkObject(o, at.Key("objects").Index(i))
	}
}
