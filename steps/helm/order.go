package helm

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// Before reports whether an install by a version of Helm is done with the rendered
// object a before it sends b. Objects of one kind are sent side by side; hooks of one sort are
// sent one by one, and are taken to have no order here.
func Before(e engine.Engine, a, b *unstructured.Unstructured) bool {
	if x, y := stageOf(a), stageOf(b); x != template || y != template {
		return x < y
	}
	return cmp.Or(cmp.Compare(rank(e, a), rank(e, b)), strings.Compare(a.GetKind(), b.GetKind())) < 0
}

// stage is the part of an install that sends an object.
type stage int

const (
	preInstall stage = iota
	template
	postInstall
)

func stageOf(o *unstructured.Unstructured) stage {
	for event := range strings.SplitSeq(o.GetAnnotations()[engine.HookAnnotation], ",") {
		switch strings.TrimSpace(event) {
		case engine.HookPreInstall.String():
			return preInstall
		case engine.HookPostInstall.String():
			return postInstall
		}
	}
	return template
}

// rank is the place of an object's kind in Helm's order; the kinds that it does
// not have come last, by name (helm.sh/helm/v3 pkg/releaseutil/kind_sorter.go,
// lessByKind, which is not exported).
func rank(e engine.Engine, o *unstructured.Unstructured) int {
	order := e.InstallOrder()
	if i := slices.Index(order, o.GetKind()); i >= 0 {
		return i
	}
	return len(order)
}
