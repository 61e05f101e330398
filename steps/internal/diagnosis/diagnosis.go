// Package diagnosis says in the terms of a plan how webhooks stand: for events,
// and to people whose step waited in vain.
//
// It reads nothing from a cluster: package webhook/survey does.
package diagnosis

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Of says for an event how a webhook stands: at the lowest rung that it has not
// reached.
func Of(s survey.Status) *runner.Webhook {
	w := &runner.Webhook{
		Name: s.Name, Service: s.Service(), Configuration: s.Configuration, Owner: s.Owner.String(),
		Rung: string(webhook.Admitting), State: string(webhook.Ready),
	}
	if s.Configuration != "" { // else the kind is that of a fault, which does not tell
		w.Kind = string(s.Kind)
	}
	if r, missing := s.Ladder.Missing(); missing {
		w.Rung, w.State, w.Cause, w.Explanation = string(r.Rung), string(r.State), r.Reason, r.Explain()
	} else if r, ok := s.Ladder.Unknown(); ok {
		w.Rung, w.State, w.Cause = string(r.Rung), string(r.State), r.Reason
	}
	return w
}

// WithoutRepeats hands reports on to r, except for those on a webhook that stands as the
// one before said.
func WithoutRepeats(r runner.Reporter) runner.Reporter {
	return &withoutRepeats{reporter: r, told: map[[3]string]runner.Webhook{}}
}

type withoutRepeats struct {
	reporter runner.Reporter

	mu   sync.Mutex
	told map[[3]string]runner.Webhook
}

func (o *withoutRepeats) Report(r runner.Report) {
	if r.Type == runner.TypeWebhook && r.Webhook != nil {
		key := [3]string{r.Webhook.Kind, r.Webhook.Configuration, r.Webhook.Name}
		o.mu.Lock()
		same := o.told[key] == *r.Webhook
		o.told[key] = *r.Webhook
		o.mu.Unlock()
		if same {
			return
		}
	}
	o.reporter.Report(r)
}

// Owners knows which step of a plan brings what to a cluster.
type Owners struct {
	Plan *plan.Plan
	// Cluster is the plan's name for the cluster.
	Cluster string
	// Namespace is that of releases whose step names none.
	Namespace string
}

// Of says whose a webhook is and whether the plan installs it; "" when nothing
// is known.
func (o Owners) Of(owner webhook.Owner) string {
	name := owner.String()
	if name == "" {
		return ""
	}
	if step := o.Installer(owner); step != "" {
		return fmt.Sprintf("%s, which step %q installs", name, step)
	}
	if o.Plan.File == "" { // there is no plan: the command line says all
		return name
	}
	return name + ", which this plan does not install"
}

// Installer is the step that brings what an owner owns; "" when the plan has none.
func (o Owners) Installer(owner webhook.Owner) string {
	for _, s := range o.Steps() {
		if s.Helm != nil && owner.Release != "" && owner.Release == cmp.Or(s.Helm.Namespace, o.Namespace)+"/"+s.ReleaseName() {
			return s.Name
		}
	}
	return ""
}

// Steps are the plan's steps on the cluster.
func (o Owners) Steps() iter.Seq2[int, plan.Step] {
	return func(yield func(int, plan.Step) bool) {
		for i, s := range o.Plan.Steps {
			if o.Plan.SameCluster(o.Plan.StepCluster(s), o.Cluster) && !yield(i, s) {
				return
			}
		}
	}
}

// Hint says what it means that a webhook gives no answer, and what people can do
// about it. The status may be empty, as far as it is not known, and so may the
// fault.
func (o Owners) Hint(st survey.Status, f webhook.Fault) string {
	missing, _ := st.Ladder.Missing()
	if words := cmp.Or(missing.Explain(), f.Explain()); words != "" {
		return words + "; " + o.remedy(st, f)
	}
	return o.remedy(st, f)
}

// remedy says what people can do.
func (o Owners) remedy(st survey.Status, f webhook.Fault) string {
	foreign := st.Owner.String() != "" && o.Installer(st.Owner) == ""
	missing, _ := st.Ladder.Missing()
	_, gone := nothingBehind(st.Ladder)
	service := cmp.Or(st.Service(), f.ServiceKey())
	switch at := missing.Source; {
	case strings.HasSuffix(missing.Reason, " is scaled to 0"):
		return fmt.Sprintf("scale it up, if it is to run: kubectl scale -n %s %s/%s --replicas=1", at.Namespace, strings.ToLower(at.Kind), at.Name)
	case f.Kind == webhook.Conversion:
		return "the CRD's conversion webhook must run before its objects can be read or written"
	case foreign && gone && missing.Source.Kind != "Pod": // nobody is there to fill the CA bundle in either
		return fmt.Sprintf("mend what should answer at Service %s, or, if nothing should any more, the webhook is stale: kubectl delete %s %s",
			service, resourceOf(st.Kind), st.Configuration)
	case missing.Rung == webhook.Trusted:
		return "the operator, or cert-manager's cainjector, fills the CA bundle in: look at its log"
	case at.Kind == "Pod":
		return fmt.Sprintf("look at the pod: kubectl describe pod -n %s %s", at.Namespace, at.Name)
	case at.Kind == "Deployment", at.Kind == "StatefulSet":
		return fmt.Sprintf("look at it: kubectl describe -n %s %s/%s", at.Namespace, strings.ToLower(at.Kind), at.Name)
	case f.Class == webhook.Misconfigured:
		return "this does not heal by waiting: look at the webhook's configuration, certificate and Service"
	case service != "":
		namespace := f.Namespace
		if st.Client.Service != nil {
			namespace = st.Client.Service.Namespace
		}
		return fmt.Sprintf("look at the pods behind it (kubectl get endpointslices,pods -n %s); if nothing should answer any more, its webhook configuration is stale and can be deleted", namespace)
	case st.Configuration != "":
		return fmt.Sprintf("look at it: kubectl get %s %s -o yaml", resourceOf(st.Kind), st.Configuration)
	default:
		return "find its configuration with: kplan webhooks"
	}
}

// nothingBehind finds the lower one of the rungs that say what is behind a webhook
// which it did not reach.
func nothingBehind(l webhook.Ladder) (webhook.Reading, bool) {
	for _, rung := range []webhook.Rung{webhook.Routed, webhook.Backed} {
		if r, ok := l.At(rung); ok && (r.State == webhook.Waiting || r.State == webhook.Failed) {
			return r, true
		}
	}
	return webhook.Reading{}, false
}

// Lacks says which rung a webhook did not reach, and, if its CA bundle is what is
// missing, that there is nothing behind it either: two faults with one cause, or
// with two. It is "" when no rung is missing.
func Lacks(l webhook.Ladder) string {
	r, missing := l.Missing()
	if !missing {
		return ""
	}
	if behind, gone := nothingBehind(l); gone && behind.Rung != r.Rung {
		return r.String() + "; " + behind.String()
	}
	return r.String()
}

func resourceOf(k webhook.Kind) string {
	switch k {
	case webhook.Mutating:
		return "mutatingwebhookconfiguration"
	case webhook.Conversion:
		return "customresourcedefinition"
	default:
		return "validatingwebhookconfiguration"
	}
}

// TimedOut says what a step waited for when its time ran out, what the last
// reading of it was, and what to do; any other error is returned as it is.
func TimedOut(err error, what, last, hint string) error {
	var t *runner.TimeoutError
	if !errors.As(err, &t) {
		return err
	}
	return runner.WithHint(&runner.TimeoutError{After: t.After, For: what, Last: last, Cause: err}, hint)
}
