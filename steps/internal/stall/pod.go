package stall

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/webhook"
)

// pod says why a pod does not get on.
func (v *View) pod(p *corev1.Pod) []Stall {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || ready(p) {
		return nil
	}
	// The words are those of the trouble that a run shows all the time.
	problem := webhook.PodProblem([]*corev1.Pod{p})
	var all []Stall
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			all = append(all, Stall{Class: Schedule, Reason: problem})
			all = append(all, v.claimsOf(p)...)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s, ok := v.container(p, c); ok {
			s.Reason = webhook.ContainerProblem(p, c)
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		for _, e := range v.warnings(p.UID, "FailedMount") {
			if strings.Contains(e.Message, "not found") || strings.Contains(e.Message, "non-existent") {
				return []Stall{{Class: Config, Reason: "pod " + p.Name + " cannot start: " + oneLine(e.Message)}}
			}
		}
	}
	return all
}

// container says of which class the stall of a container is, without its reason.
func (v *View) container(p *corev1.Pod, c corev1.ContainerStatus) (s Stall, ok bool) {
	switch webhook.ImageFaultOf(c) {
	case webhook.ImageUnusable:
		if c.State.Waiting.Reason == "InvalidImageName" {
			return Stall{Class: Name}, true
		}
		return Stall{Class: Never}, true
	case webhook.ImageAbsent:
		return Stall{Class: Image}, true
	case webhook.ImageRefused:
		return Stall{Class: Pull}, true
	}
	if w := c.State.Waiting; w != nil && (w.Reason == "CreateContainerConfigError" || w.Reason == "CreateContainerError") {
		return Stall{Class: Config}, true
	}
	if ofJob(p) {
		return s, false // it has a limit of its own
	}
	t := c.State.Terminated
	if t == nil && c.State.Waiting != nil {
		t = c.LastTerminationState.Terminated
	}
	if t == nil || c.RestartCount == 0 || c.State.Running != nil {
		return s, false
	}
	run, here := v.restarts(p, c)
	class, limit := Crash, v.Limits.Restarts
	if t.Reason == "StartError" || t.Reason == "ContainerCannotRun" {
		class, limit = Start, v.Limits.Starts
	}
	// Of an earlier attempt's restarts one more is wanted: what was amiss may be mended.
	return Stall{Class: class, Open: run < limit || here < 1}, true
}

// restart is a container whose restarts are counted.
type restart struct {
	pod       string // the UID
	container string
}

// look notes how often the containers of a pod were started anew before the wait.
func (v *View) look(p *corev1.Pod) {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		v.restarts(p, c)
	}
}

// restarts is how often a container was started anew in this run, and in this wait.
func (v *View) restarts(p *corev1.Pod, c corev1.ContainerStatus) (run, here int32) {
	key := restart{string(p.UID), c.Name}
	if v.first == nil {
		v.first = map[restart]int32{}
	}
	before, known := v.first[key]
	if !known {
		before = c.RestartCount
		if p.CreationTimestamp.After(v.Began.Add(-clockSkew)) {
			before = 0
		}
		v.first[key] = before
	}
	here = c.RestartCount - before
	return max(here, c.RestartCount-v.Restarts.first(key, before)), here
}

// clockSkew is how much the clocks of a cluster and of this machine may differ.
const clockSkew = 3 * time.Second

// OwnedBy reports whether a pod is one of those that an object of this kind and name makes.
func OwnedBy(p *corev1.Pod, kind, name string) bool {
	owner := metav1.GetControllerOf(p)
	switch {
	case owner == nil:
		return false
	case kind == "Deployment": // its ReplicaSets are named after it and a hash of the pod's template
		return owner.Kind == "ReplicaSet" && owner.Name == name+"-"+p.Labels["pod-template-hash"]
	}
	return owner.Kind == kind && owner.Name == name
}

func ofJob(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "Job"
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// oneLine is a text of Kubernetes as one clause.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// After says how long a stall lasted until it was given up.
func (s Stall) After(lasted time.Duration) string {
	if lasted < time.Second {
		return s.Reason
	}
	return fmt.Sprintf("%s (for %s)", s.Reason, lasted.Round(time.Second))
}
