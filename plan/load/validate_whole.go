package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// whole is what is to know of the whole plan, made when it is first asked for.
type whole struct {
	graph func() *plan.Graph
	// releases are the helm steps of each release, in plan order; under "" those
	// whose release may be deferred.
	releases func() map[string][]*plan.Step
}

func newWhole(p *plan.Plan) *whole {
	return &whole{graph: sync.OnceValue(p.Graph), releases: sync.OnceValue(func() map[string][]*plan.Step {
		releases := map[string][]*plan.Step{}
		for i := range p.Steps {
			s := &p.Steps[i]
			name := s.ReleaseName()
			if s.Helm != nil && s.Helm.Release == "" && s.Pending != nil {
				name = "" // it may be deferred
			}
			if s.Helm != nil {
				releases[name] = append(releases[name], s)
			}
		}
		return releases
	})}
}

// validateWhole looks at what takes the steps of the whole plan, in the file and in
// those that it includes.
func (p *pass) validateWhole(w *whole) {
	p.whole = w
	for _, e := range p.decls {
		for _, it := range e.instances {
			switch {
			case it.child != nil:
				p.session.pass(it.child).validateWhole(w)
			case it.step.Webhook != nil && !e.isInclude:
				s := it.step
				s.Name, s.Cluster = it.flatName(), p.clusterName(s.Cluster)
				newStepValidator(p, it).wholeStep(s)
			}
		}
	}
}

// wholeStep looks at what takes the steps of the whole plan to judge.
func (v stepValidator) wholeStep(s plan.Step) {
	if s.Webhook != nil && s.Webhook.Release != "" {
		v.checkWebhookRelease(s, v.at.Key("webhook"))
	}
}

// checkWebhookRelease finds the helm steps with the release. The webhook step
// need not come after them: next to them it waits until the release is there.
// Before them it would wait for ever.
func (v stepValidator) checkWebhookRelease(s plan.Step, at path) {
	w := *s.Webhook
	all := v.whole.releases()
	var owners []*plan.Step
	for _, o := range all[w.Release] {
		if o.Cluster == s.Cluster && (w.Namespace == "" || o.Helm.Namespace == "" || o.Helm.Namespace == w.Namespace) {
			owners = append(owners, o)
		}
		if len(owners) > 1 {
			break // which one is meant is not clear already
		}
	}
	switch {
	case w.Release == "" || all[""] != nil && len(owners) == 0: // a deferred release may be this one
	case len(owners) == 0 && len(all[w.Release]) > 0:
		v.Report(fault{At: at.Key("namespace"), Hint: "remove namespace, or give that of the helm step"}, "no helm step installs the release %q into the namespace %q", w.Release, w.Namespace)
	case len(owners) == 0:
		hint := cmp.Or(v.near.Hint(w.Release, slices.Sorted(maps.Keys(all))), "for a webhook from outside of the plan, give its configuration")
		v.Report(fault{Code: document.CodeUnknownName, At: at.Key("release"), Hint: hint}, "no helm step installs the release %q", document.Cut(w.Release, 80))
	case len(owners) > 1 && w.Namespace == "":
		v.Report(fault{At: at.Key("release"), Hint: "give its namespace"}, "the release %q is installed by more than one step: %s and %s", w.Release, owners[0].Name, owners[1].Name)
	case len(owners) == 1 && v.whole.graph().Follows(owners[0].Name, s.Name):
		v.Report(fault{At: at.Key("release"), Hint: fmt.Sprintf("let it need %q, not the other way round", owners[0].Name)}, "the release %q is installed by the step %q, which comes after this one", w.Release, owners[0].Name)
	}
}
