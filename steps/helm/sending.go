package helm

import (
	"cmp"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// sending says how the objects of the next revision are sent: those of a new release
// as the step or else its engine does, and those of one that is there as they were,
// unless the step says otherwise. A release that another tool applies by the server
// stays so: what the client sent as well, the server would not take away later.
func (o *operation) sending() engine.Sending {
	if o.last == nil || o.last.Info.Status == engine.StatusUninstalled {
		return engine.Sending{ServerSide: o.byServer(o.Engine().ServerSide()), ForceConflicts: o.Spec.ForceConflicts}
	}
	how := o.sendingLike(o.last)
	from := cmp.Or(o.deployed, o.last) // an attempt that failed since may have sent by the client
	how.Managers = from.ApplyMethod != engine.ServerSide || o.last.ApplyMethod != engine.ServerSide
	return how
}

// sendingLike says how objects are sent as those of a revision were, unless the step
// says otherwise.
func (o *operation) sendingLike(r *engine.Release) engine.Sending {
	return engine.Sending{ServerSide: o.byServer(r.ApplyMethod == engine.ServerSide), ForceConflicts: o.Spec.ForceConflicts}
}

func (o *operation) byServer(auto bool) bool {
	switch o.Spec.ServerSide {
	case plan.ServerSideTrue:
		return true
	case plan.ServerSideFalse:
		return false
	case plan.ServerSideAuto:
	}
	return auto
}
