package watch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ReadingState is how far an object is.
type ReadingState string

// How far an object can be.
const (
	// Waiting means that it is not there yet, or not as it should be.
	Waiting ReadingState = "waiting"
	// Reached means that it is as it should be.
	Reached ReadingState = "ready"
	// Failed means that waiting longer cannot help.
	Failed ReadingState = "failed"
)

// Reading is one look at an object.
type Reading struct {
	State ReadingState
	// Reason says why, for people; one line without control characters.
	Reason string
	// Recoverable marks a failure that the object's controller takes back when
	// the cause goes away, such as a Deployment's exceeded progress deadline. One
	// that was there before the wait began is given some time: it may be the
	// trace of an earlier run.
	Recoverable bool
	// Lasting is how long a reached state must last before it counts, for one that
	// comes and goes with a pod that crashes.
	Lasting time.Duration

	// unsettled marks a recoverable failure that is always given some time, and stalled
	// one by a stall.
	unsettled, stalled bool
}

func waiting(reason string) Reading { return Reading{State: Waiting, Reason: reason} }
func reached(reason string) Reading { return Reading{State: Reached, Reason: reason} }
func failed(reason string) Reading  { return Reading{State: Failed, Reason: reason} }

// Ready judges whether an object is ready; nil means that it is absent. It
// looks at nothing but the object.
//
// It follows kstatus, with these differences: a Job is ready when it is
// complete, not when it runs; a Pod that ended in failure for good has failed;
// crash loops and unschedulable Pods are waited for, since operators come up
// crashing; a paused Deployment is ready, and a Service is not before its load
// balancer has an address, both as in Helm; pods of a DaemonSet with strategy
// OnDelete need not be of its newest version; a custom resource whose Available
// condition is not true is waited for; and a status in an unknown form is read
// as far as possible rather than refused. As in kstatus, an object without any
// known condition is ready: nothing tells it from one whose controller never
// sets conditions.
func Ready(u *unstructured.Unstructured) Reading {
	if u == nil {
		return waiting("not found")
	}
	if u.GetDeletionTimestamp() != nil {
		return waiting("being deleted")
	}
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return jobReady(u)
	case schema.GroupKind{Kind: "Pod"}:
		return podReady(u)
	case schema.GroupKind{Kind: "Service"}:
		if !hasAddress(u) {
			return waiting("no load balancer has given it an address")
		}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
			return reached("paused")
		}
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		u = byHand(u)
	}
	res, err := status.Compute(u)
	if err != nil {
		return looselyReady(u)
	}
	reason := res.Message
	if reason == "" && len(res.Conditions) > 0 {
		reason = res.Conditions[0].Reason
	}
	switch res.Status {
	case status.CurrentStatus:
		if status.GetLegacyConditionsFn(u) == nil {
			if c, ok := findCondition(u, "Available"); ok && c.status != "True" {
				return waiting(c.String())
			}
		}
		return reached(reason)
	case status.FailedStatus:
		return Reading{State: Failed, Reason: reason, Recoverable: true}
	case status.InProgressStatus, status.TerminatingStatus, status.NotFoundStatus, status.UnknownStatus:
		return waiting(reason)
	}
	return waiting(reason)
}

// byHand lets the pods of a DaemonSet count as updated that its owner replaces by
// hand: nobody else does.
func byHand(u *unstructured.Unstructured) *unstructured.Unstructured {
	if strategy, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type"); strategy != "OnDelete" {
		return u
	}
	desired, found, _ := unstructured.NestedInt64(u.Object, "status", "desiredNumberScheduled")
	if !found {
		return u
	}
	u = u.DeepCopy()
	_ = unstructured.SetNestedField(u.Object, desired, "status", "updatedNumberScheduled") // there is a status
	return u
}

func jobReady(u *unstructured.Unstructured) Reading {
	for _, c := range conditions(u) {
		switch {
		case c.status != "True":
		case c.kind == "Complete":
			return reached("complete")
		case c.kind == "Failed":
			return failed(c.String())
		}
	}
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		return reached("suspended")
	}
	if start, _, _ := unstructured.NestedString(u.Object, "status", "startTime"); start == "" {
		return waiting("not started")
	}
	completions := number(u, 1, "spec", "completions")
	return waiting(fmt.Sprintf("succeeded: %d/%d, active: %d, failed: %d", number(u, 0, "status", "succeeded"),
		completions, number(u, 0, "status", "active"), number(u, 0, "status", "failed")))
}

// hasAddress reports whether a Service that wants a load balancer has one, or
// addresses of its own (helm.sh/helm/v3 pkg/kube/ready.go, serviceReady).
func hasAddress(u *unstructured.Unstructured) bool {
	if kind, _, _ := unstructured.NestedString(u.Object, "spec", "type"); kind != "LoadBalancer" {
		return true
	}
	ingress, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "loadBalancer", "ingress")
	own, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "externalIPs")
	given, _ := ingress.([]any)
	external, _ := own.([]any)
	return len(given) > 0 || len(external) > 0
}

func podReady(u *unstructured.Unstructured) Reading {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if phase == "Failed" {
		reason, _, _ := unstructured.NestedString(u.Object, "status", "reason")
		return failed(strings.TrimSpace("the pod failed " + reason))
	}
	res, err := status.Compute(u)
	switch {
	case err != nil:
		return waiting("phase " + phase)
	case res.Status == status.CurrentStatus:
		return reached(res.Message)
	}
	return waiting(res.Message)
}

// looselyReady judges objects whose status kstatus cannot read, such as those
// with a generation written as a string (Argo Rollouts).
func looselyReady(u *unstructured.Unstructured) Reading {
	observed, found, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "observedGeneration")
	if found && u.GetGeneration() != 0 {
		if s := fmt.Sprint(observed); s != strconv.FormatInt(u.GetGeneration(), 10) {
			return waiting(fmt.Sprintf("generation is %d, observed is %s", u.GetGeneration(), s))
		}
	}
	for _, kind := range []string{"Ready", "Available"} {
		if c, ok := findCondition(u, kind); ok && c.status != "True" {
			return waiting(c.String())
		}
	}
	return reached("")
}

// condition is one entry of status.conditions.
type condition struct{ kind, status, reason, message string }

func (c condition) String() string {
	s := c.kind + " is " + c.status
	if why := cmp.Or(c.message, c.reason); why != "" {
		s += ": " + why
	}
	return s
}

// conditions reads status.conditions, passing over what is not in the usual form.
func conditions(u *unstructured.Unstructured) []condition {
	raw, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := raw.([]any)
	var out []condition
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		out = append(out, condition{text("type"), text("status"), text("reason"), text("message")})
	}
	return out
}

func findCondition(u *unstructured.Unstructured, kind string) (condition, bool) {
	for _, c := range conditions(u) {
		if c.kind == kind {
			return c, true
		}
	}
	return condition{}, false
}

func number(u *unstructured.Unstructured, without int64, path ...string) int64 {
	if n, ok, err := unstructured.NestedInt64(u.Object, path...); ok && err == nil {
		return n
	}
	return without
}
