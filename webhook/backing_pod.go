package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// podProblem is why a pod is no ready endpoint, as a predicate of the pod.
type podProblem struct {
	severity severity
	text     string
}

// severity orders troubles: the gravest explains most.
type severity int

const (
	problemEnding   severity = iota // the pod goes, or is gone
	problemSettling                 // it is ready, the endpoint follows
	problemStarting                 // it takes its time
	problemStuck                    // it waits for somebody, or fell over before
	problemBroken                   // it fails
)

// podProblem reads a pod's status as kubectl get pods does (kubernetes/kubernetes
// pkg/printers/internalversion/printers.go, printPod), and adds what the
// containers, the kubelet or the scheduler say.
func (b *Backing) podProblem(p *corev1.Pod) podProblem {
	switch {
	case p.DeletionTimestamp != nil:
		return podProblem{problemEnding, "is being deleted"}
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason == "" && culprit(p) != nil:
		c := culprit(p)
		return podProblem{problemEnding, "has failed: container " + c.Name + " " + ended(c.State.Terminated)}
	case p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		return podProblem{problemEnding, because("has ended as "+cmp.Or(p.Status.Reason, string(p.Status.Phase)), p.Status.Message)}
	}
	if c := condition(p, corev1.PodScheduled); c.Status == corev1.ConditionFalse {
		return podProblem{problemStuck, because("cannot be scheduled", c.Message)}
	}
	worst := podProblem{problemSettling, "is ready, and not yet an endpoint"}
	if !podReady(p) {
		worst = podProblem{problemStarting, because("is not ready", condition(p, corev1.PodReady).Message)}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		// Of equally grave ones the last says most: it is what the others wait for.
		if t := b.containerProblem(p, c); t.text != "" && t.severity >= worst.severity {
			worst = t
		}
	}
	return worst
}

// containerProblem is the trouble of one container; it has no text when there is none.
// What kubelet shows by turns is told in one way: a pull that failed and the
// pause after it, an end and the pause before the next start.
func (b *Backing) containerProblem(p *corev1.Pod, c corev1.ContainerStatus) podProblem {
	last := c.LastTerminationState.Terminated
	switch w, t := c.State.Waiting, c.State.Terminated; {
	case c.Ready, w != nil && w.Reason == "PodInitializing": // an init container explains it
	case w != nil && w.Reason == "ContainerCreating":
		if missing := b.missingSecret(p); missing != "" {
			return podProblem{problemStuck, "cannot start: Secret " + missing + ", which it mounts, does not exist"}
		}
		return podProblem{problemStarting, "is being created"}
	case w != nil && w.Reason == "CrashLoopBackOff" && last != nil: // its message tells the pause only
		return podProblem{problemBroken, crashes + c.Name + " " + ended(last)}
	case t != nil && c.RestartCount > 0:
		return podProblem{problemBroken, crashes + c.Name + " " + ended(t)}
	case w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff"):
		why := w.Message
		if _, after, ok := strings.Cut(why, "ErrImagePull: "); ok { // after "Back-off pulling image …"
			why = after
		}
		if _, after, ok := strings.Cut(why, fmt.Sprintf("failed to resolve reference %q: ", c.Image)); ok { // what containerd says before is the same always
			why = after
		}
		return podProblem{problemBroken, because(fmt.Sprintf("is in ImagePullBackOff, image %q", c.Image), why)}
	case w != nil && w.Reason == "RunContainerError":
		if why, ok := unstarted(w.Message); ok {
			return podProblem{problemBroken, because("is in RunContainerError: container "+c.Name+" could not be started", why)}
		}
		return podProblem{problemBroken, because("is in "+w.Reason, w.Message)}
	case w != nil && w.Reason != "":
		return podProblem{problemBroken, because("is in "+w.Reason, w.Message)}
	case t != nil:
		return podProblem{problemBroken, fmt.Sprintf("has a container %s that %s", c.Name, ended(t))}
	case last != nil:
		return podProblem{problemStuck, fmt.Sprintf("runs, but its container %s is not ready; restarted %d times, it last %s", c.Name, c.RestartCount, ended(last))}
	case c.State.Running != nil && condition(p, corev1.PodInitialized).Status == corev1.ConditionFalse:
		return podProblem{problemStarting, "waits for its init container " + c.Name}
	case c.State.Running != nil:
		return podProblem{problemStarting, "runs, but its container " + c.Name + " is not ready"}
	}
	return podProblem{}
}

const crashes = "is in CrashLoopBackOff: container "

// culprit is the container for which a pod failed: the first that ended badly; nil without.
func culprit(p *corev1.Pod) *corev1.ContainerStatus {
	all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	if i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
	}); i >= 0 {
		return &all[i]
	}
	return nil
}

// missingSecret names a Secret that the pod mounts and that does not exist.
func (b *Backing) missingSecret(p *corev1.Pod) string {
	for _, v := range p.Spec.Volumes {
		if s := v.Secret; s != nil && !ptr.Deref(s.Optional, false) && slices.Contains(b.MissingSecrets, s.SecretName) {
			return s.SecretName
		}
	}
	return ""
}

// ended is how a container did. Its message is what the process wrote to its
// termination log, or the end of its output: up to 4 KiB, of which the last line
// says most.
func ended(t *corev1.ContainerStateTerminated) string {
	if why, ok := unstarted(t.Message); ok {
		return because("could not be started", why)
	}
	lines := strings.Split(strings.TrimSpace(t.Message), "\n")
	last := shortened(lines[len(lines)-1], 200)
	return because(fmt.Sprintf("ended with %d", t.ExitCode), cmp.Or(last, t.Reason))
}

// unstarted cuts what the container runtime says when it cannot start a program
// (opencontainers/runc libcontainer/process_linux.go) down to why.
func unstarted(text string) (why string, ok bool) {
	_, why, ok = strings.Cut(text, "unable to start container process: ")
	return strings.TrimPrefix(why, "error during container init: "), ok
}

func because(what, why string) string {
	if why = shortened(why, 300); why == "" {
		return what
	}
	return what + ": " + why
}

// shortened is a text as one line of at most so many characters.
func shortened(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

func podReady(p *corev1.Pod) bool {
	return condition(p, corev1.PodReady).Status == corev1.ConditionTrue
}

// readyTransition is when the pod became ready, or stopped being it.
func readyTransition(p *corev1.Pod) time.Time {
	if c := condition(p, corev1.PodReady); !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return p.CreationTimestamp.Time
}

// condition is the pod's condition of a type; it is empty when there is none.
func condition(p *corev1.Pod, typ corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == typ {
			return c
		}
	}
	return corev1.PodCondition{}
}
