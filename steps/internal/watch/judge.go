package watch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// unseen is how long after its creation an object without a status is waited for whose
// kind says which generation was seen. Some controllers never look at objects that
// nothing picks.
const unseen = 30 * time.Second

// Judge judges whether objects are ready: by the rules of the session, else as Ready
// does. A custom resource whose controller has not looked at it yet, though its
// kind would tell, is waited for a while. It may ask the cluster, once for a kind.
func Judge(ctx context.Context, s *cluster.Session) func(Target, *unstructured.Unstructured) Reading {
	return func(_ Target, u *unstructured.Unstructured) Reading {
		if u == nil || u.GetDeletionTimestamp() != nil {
			return Ready(u)
		}
		switch v, known := s.Ready.Judge(u); {
		case !known:
		case v.Ready:
			return reached("")
		case v.Failed:
			return Reading{State: Failed, Reason: v.Reason, Recoverable: true, unsettled: true}
		default:
			return waiting(v.Reason)
		}
		r := Ready(u)
		if r.State != Reached || u.Object["status"] != nil || !kinds.Custom(u.GroupVersionKind().Group) {
			return r
		}
		left := unseen - time.Since(u.GetCreationTimestamp().Time)
		if left > 0 && s.Cluster.Observed(ctx, u.GroupVersionKind()) {
			return Reading{State: Reached, Reason: "no controller has looked at it yet", Lasting: min(left, unseen)}
		}
		return r
	}
}
