package guard

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/webhook"
)

// entry is a webhook with the object that configures it.
type entry struct {
	webhook.Entry
	from *unstructured.Unstructured
}

// precedes reports whether a step which brings the webhook and the object o as
// well configures the webhook before it sends o. Otherwise a first install is
// not judged, and later runs are. Conversions come with the CRD, without which
// there are no objects.
func (e entry) precedes(s *step, o *unstructured.Unstructured) bool {
	switch {
	case e.Kind == webhook.Conversion:
		return true
	case s.charted:
		return helm.Before(e.from, o)
	default:
		return apply.Before(e.from.GroupVersionKind().GroupKind(), o.GroupVersionKind().GroupKind())
	}
}
