package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Backing is what was read of the Service that a webhook is called at, and of
// what stands behind it.
type Backing struct {
	// Service is nil when it does not exist.
	Service *corev1.Service
	// Slices are the EndpointSlices of the Service.
	Slices []*discoveryv1.EndpointSlice
	// Pods are those that the Service selects.
	Pods []*corev1.Pod
	// Certificates are those that the pods mount.
	Certificates []Certificate
	// Unread says why a resource could not be read, e.g. because it is
	// forbidden; the keys are Services, EndpointSlices, Pods and Secrets.
	Unread map[string]string
}

// The resources that a Backing is read from.
const (
	Services       = "services"
	EndpointSlices = "endpointslices"
	Pods           = "pods"
	Secrets        = "secrets"
)

// count counts addresses behind a Service.
type count struct{ ready, serving, all int }

// String gives for example "1 of 2 endpoints ready".
func (c count) String() string {
	switch {
	case c.all == 0:
		return "no endpoints"
	case c.serving > c.ready: // some are about to go and still answer
		return fmt.Sprintf("%d of %d endpoints ready, %d serving", c.ready, c.all, c.serving)
	}
	return fmt.Sprintf("%d of %d endpoints ready", c.ready, c.all)
}

// endpoints counts the addresses. No condition counts as true, and serving
// without one as ready (k8s.io/api discovery/v1, EndpointConditions).
func (b *Backing) endpoints() count {
	var n count
	for _, s := range b.Slices {
		for _, e := range s.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			serving := ready
			if e.Conditions.Serving != nil {
				serving = *e.Conditions.Serving
			}
			n.all += len(e.Addresses)
			if ready {
				n.ready += len(e.Addresses)
			}
			if serving {
				n.serving += len(e.Addresses)
			}
		}
	}
	return n
}

// moving tells whether pods behind the Service come or go.
func (b *Backing) moving() bool {
	return slices.ContainsFunc(b.Pods, func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !podReady(p)
	})
}

// explain says why there is no ready endpoint: the trouble of the pod that has
// the gravest one.
func (b *Backing) explain() (string, *corev1.Pod) {
	switch {
	case b.Unread[Pods] != "":
		return b.Unread[Pods], nil
	case b.Service == nil:
		return "", nil
	case len(b.Service.Spec.Selector) == 0:
		return "the Service selects no pods", nil
	case len(b.Pods) == 0:
		return "no pod has the labels that the Service selects", nil
	}
	pod := slices.MaxFunc(b.Pods, func(p, q *corev1.Pod) int {
		return cmp.Compare(troubleOf(p).grave, troubleOf(q).grave)
	})
	return "pod " + pod.Name + " " + troubleOf(pod).text, pod
}

// trouble is why a pod is not ready.
type trouble struct {
	text string
	// grave orders troubles: the gravest explains most.
	grave int
}

// troubleOf reads a pod's status as kubectl get pods does (kubernetes/kubernetes
// pkg/printers/internalversion/printers.go, printPod), and adds what the
// container or the scheduler says.
func troubleOf(p *corev1.Pod) trouble {
	if p.DeletionTimestamp != nil {
		return trouble{"is being deleted", 1}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return trouble{because("is "+strings.ToLower(cmp.Or(c.Reason, corev1.PodReasonUnschedulable)), c.Message), 3}
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			t := trouble{because("is in "+w.Reason, w.Message), 4}
			if w.Reason == "ContainerCreating" {
				t = trouble{"is being created", 2}
			}
			if last := c.LastTerminationState.Terminated; last != nil {
				t.text += fmt.Sprintf(" (container %s %s)", c.Name, ended(last))
			}
			return t
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return trouble{fmt.Sprintf("has a container %s that %s", c.Name, ended(t)), 4}
		}
		if !c.Ready && c.RestartCount > 0 {
			return trouble{fmt.Sprintf("is not ready, after %d restarts", c.RestartCount), 3}
		}
	}
	if !podReady(p) {
		return trouble{"is not ready", 2}
	}
	return trouble{"is ready, but not yet an endpoint", 0}
}

func ended(t *corev1.ContainerStateTerminated) string {
	return because(fmt.Sprintf("ended with %d", t.ExitCode), cmp.Or(strings.TrimSpace(t.Message), t.Reason))
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
