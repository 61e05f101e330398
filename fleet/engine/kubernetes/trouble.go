package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
)

// lookEvery is how often the events of Jobs are looked at while pods are missing.
const lookEvery = 5 * time.Second

// troubles tells what keeps workers from their work: quotas, images, nodes.
func (l *loop) troubles(ctx context.Context, v *view) {
	if v.now.Sub(l.looked) < lookEvery {
		return
	}
	l.looked = v.now
	for i, w := range l.x.Waves {
		j := v.jobs[i]
		if j == nil || w.State != fleet.WaveRunning || suspended(j.Job) || ended(j.Job) {
			continue
		}
		l.stuck(v.pods[i], w.Name)
		wanted := min(int(*j.Spec.Parallelism), len(j.clusters)-len(j.completed)-len(j.failed))
		if int(j.Status.Active) >= wanted {
			continue
		}
		events, err := l.store.Client.CoreV1().Events(l.store.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Job,reason=FailedCreate,involvedObject.name=" + j.Name,
		})
		if err != nil {
			continue // who may not read them learns less
		}
		for _, e := range events.Items {
			l.say(fleet.Event{
				Wave: w.Name, Message: "a worker cannot be made: " + withoutName(e.Message),
				Error: fmt.Sprintf("Job %s: %s", j.Name, e.Message), Hint: hintOf(e.Message),
			})
		}
	}
}

func hintOf(text string) string {
	if strings.Contains(text, "exceeded quota") {
		return "the Job goes on as others end; a larger quota lets more of them run side by side"
	}
	return ""
}

// withoutName is the text of an event without the name of the pod, so that it is told once.
func withoutName(text string) string {
	text = strings.TrimPrefix(text, "Error creating: ")
	if before, after, is := strings.Cut(text, `pods "`); is {
		if _, after, is = strings.Cut(after, `"`); is {
			return before + "pods" + after
		}
	}
	return text
}

// stuck tells why pods do not begin.
func (l *loop) stuck(wave map[int]workers, name string) {
	for _, all := range wave {
		p := all.latest()
		if !startOf(p).IsZero() || gone(p) {
			continue
		}
		why := container(p).Waiting
		switch {
		case why != nil && why.Reason != "ContainerCreating" && why.Reason != "PodInitializing":
			l.say(fleet.Event{
				Wave: name, Message: "a worker cannot begin: " + why.Reason, Error: fmt.Sprintf("pod %s: %s: %s", p.Name, why.Reason, why.Message),
				Hint: "see engine.kubernetes.image and image_pull_secrets of the fleet",
			})
		default:
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && time.Since(p.CreationTimestamp.Time) > 2*lookEvery {
					l.say(fleet.Event{Wave: name, Message: "a worker waits for a node: " + c.Message})
				}
			}
		}
	}
}
