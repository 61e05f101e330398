package watch

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/steps/internal/drift"
)

// Standing is how an object stands at one look.
type Standing struct {
	Target  Target
	Missing bool
	Reading Reading
	// Drift are the fields that others changed.
	Drift []drift.Field
}

// Stand looks at an object once; nil is one that is missing.
func Stand(t Target, live *unstructured.Unstructured, judge func(Target, *unstructured.Unstructured) Reading) Standing {
	r := judge(t, live)
	r.Reason = clean.Line(r.Reason)
	return Standing{Target: t, Missing: live == nil, Reading: r}
}
