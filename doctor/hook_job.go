package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// starting is how long a Job's pod may take to start.
const starting = time.Minute

var hookJob = Check{
	Rule: finding.Rule{
		ID: "hook-job", Severity: finding.Error,
		Summary: "A Job of a Helm release has failed or cannot start.",
		Explanation: "A release goes no further before its hook has ended, and fails with it. helm tells no more than BackoffLimitExceeded " +
			"or that the time is over: the cause is with the Job's pods, its events and its ServiceAccount.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var jobs []metav1.PartialObjectMetadata
		for _, o := range c.meta(ctx, jobResource, true, "") {
			ofRelease := isHook(&o) || o.Labels["app.kubernetes.io/managed-by"] == "Helm"
			if o.DeletionTimestamp == nil && ofRelease && metav1.GetControllerOfNoCopy(&o) == nil { // a CronJob's are none of the release
				jobs = append(jobs, o)
			}
		}
		var mu sync.Mutex
		var found []finding.Finding
		each(jobs, func(o metav1.PartialObjectMetadata) {
			u, _ := c.get(ctx, jobResource, o.Namespace, o.Name)
			if j := as[batchv1.Job](u); j != nil {
				if f, bad := c.job(ctx, j); bad {
					mu.Lock()
					defer mu.Unlock()
					found = append(found, f)
				}
			}
		})
		return found
	},
}

func isHook(o metav1.Object) bool { return o.GetAnnotations()["helm.sh/hook"] != "" }

// job says why a Job has failed or cannot start.
func (c *Cluster) job(ctx context.Context, j *batchv1.Job) (f finding.Finding, bad bool) {
	f = finding.Finding{Object: object("Job", j.Namespace, j.Name)}
	if isHook(j) {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: f.Object, Field: "metadata.annotations[helm.sh/hook]", Value: j.Annotations["helm.sh/hook"]})
	}
	failed, ended := jobEnd(j)
	if failed != nil && !c.superseded(ctx, j, failed.LastTransitionTime.Time) {
		if strings.HasPrefix(j.Annotations["helm.sh/hook"], "test") { // no release waits for it
			f.Severity = finding.Warning
		}
		f.Message = "has failed: " + cmp.Or(failed.Reason, "Failed")
		f.Evidence = append(f.Evidence, finding.Evidence{
			Object: f.Object, Field: "status.conditions[Failed]", Value: joined(failed.Reason, clause(failed.Message)),
		})
		f.Hint = "see kubectl logs -n " + j.Namespace + " job/" + j.Name
		if !c.podsOf(ctx, j, &f) {
			f.Hint = "see " + describe("job", j.Namespace, j.Name) // its pods are gone, and their logs
		}
		return f, true
	}
	if ended || ptr.Deref(j.Spec.Suspend, false) || c.Now.Sub(j.CreationTimestamp.Time) < starting {
		return f, false
	}
	if j.Status.Active+j.Status.Failed+j.Status.Succeeded == 0 {
		return f, c.uncreated(ctx, j, &f)
	}
	return f, c.podsOf(ctx, j, &f)
}

// jobEnd is the condition Failed of a Job, nil when it has not failed, and whether the
// Job has ended.
func jobEnd(j *batchv1.Job) (failed *batchv1.JobCondition, ended bool) {
	for i, k := range j.Status.Conditions {
		if k.Status != corev1.ConditionTrue {
			continue
		}
		switch k.Type {
		case batchv1.JobFailed:
			failed, ended = &j.Status.Conditions[i], true
		case batchv1.JobComplete:
			ended = true
		default: // SuccessCriteriaMet and FailureTarget come before the end
		}
	}
	return failed, ended
}

// superseded reports whether the release of a Job was deployed after the Job had failed: it
// is what an earlier attempt left.
func (c *Cluster) superseded(ctx context.Context, j *batchv1.Job, failed time.Time) bool {
	of := c.releasesOf(ctx, j)
	return len(of) > 0 && !slices.ContainsFunc(of, func(revisions []revision) bool {
		return revisions[0].status != "deployed" || revisions[0].changed.Before(failed)
	})
}

// releasesOf are the releases that a Job may be of: the one that it names, whose records can
// be in another namespace (see Cluster.installed), or else any of its namespace.
func (c *Cluster) releasesOf(ctx context.Context, j *batchv1.Job) [][]revision {
	here := c.releases(ctx)
	own := release{j.Namespace, cmp.Or(j.Annotations["meta.helm.sh/release-name"], j.Labels["app.kubernetes.io/instance"])}
	if here[own] != nil {
		return [][]revision{here[own]}
	}
	var of [][]revision
	if own.name != "" {
		for r, revisions := range c.records(ctx, true).of {
			if r.name == own.name {
				of = append(of, revisions)
			}
		}
	}
	if len(of) == 1 { // of two, one may be of another namespace's objects
		return of
	}
	of = nil
	for r, revisions := range here {
		if r.namespace == j.Namespace {
			of = append(of, revisions)
		}
	}
	return of
}

// uncreated says why a Job has no pods, and reports whether events tell that.
func (c *Cluster) uncreated(ctx context.Context, j *batchv1.Job, f *finding.Finding) bool {
	e := c.uncreatedPods(ctx, "Job", j.Namespace, j.Name)
	if e == nil || e.InvolvedObject.UID != j.UID {
		return false
	}
	why := cutBefore(clause(e.Message), " is forbidden: ")
	f.Message = "cannot make its pod: " + why
	f.Evidence = append(f.Evidence, finding.Evidence{Object: f.Object, Field: "event FailedCreate", Value: clause(e.Message)})
	f.Hint = "see " + describe("job", j.Namespace, j.Name)
	account := cmp.Or(j.Spec.Template.Spec.ServiceAccountName, "default")
	if there, known := c.exists(ctx, serviceAccountResource, j.Namespace, account); known && !there {
		f.Message = "cannot make its pod: its ServiceAccount " + account + " does not exist"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: object("ServiceAccount", j.Namespace, account), Field: "metadata", Value: "does not exist"})
		f.Hint = "make the ServiceAccount a hook as well, of a lower helm.sh/hook-weight, or name one that exists"
	}
	return true
}

// podsOf adds what is wrong with the pods of a Job, and with its rights. It reports
// whether something is.
func (c *Cluster) podsOf(ctx context.Context, j *batchv1.Job, f *finding.Finding) bool {
	pods := all[corev1.Pod](c.selected(ctx, podResource, j.Namespace, "batch.kubernetes.io/job-name="+j.Name, ""))
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !c.stuckPod(p) })
	if len(pods) == 0 {
		return false
	}
	worst := slices.MaxFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	why := webhook.PodProblem([]*corev1.Pod{worst})
	state := "has failed"
	if f.Message == "" {
		state = "is stuck"
		f.Message, f.Hint = state, "see "+describe("pod", j.Namespace, worst.Name)
	}
	f.Message = joined(f.Message, why)
	f.Evidence = append(f.Evidence, finding.Evidence{Object: object("Pod", worst.Namespace, worst.Name), Field: "status", Value: why})
	if failedContainer(worst) != "" {
		c.refused(ctx, worst, state, f)
	}
	return true
}

// stuckPod reports whether a Job's pod has failed, or does not start.
func (c *Cluster) stuckPod(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodFailed {
		return true
	}
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || c.Now.Sub(p.CreationTimestamp.Time) < starting {
		return false
	}
	crashes := slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
	})
	inits := slices.ContainsFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	return crashes || p.Status.Phase == corev1.PodPending && !inits
}

// failedContainer names the container of a pod that ended badly; "" without.
func failedContainer(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil && t.ExitCode != 0 {
				return s.Name
			}
		}
	}
	return ""
}

// uncreatedPods is the last event that tells why an object cannot make its pods; nil
// without.
func (c *Cluster) uncreatedPods(ctx context.Context, kind, namespace, name string) *corev1.Event {
	var last *corev1.Event
	for _, e := range all[corev1.Event](c.selected(ctx, eventResource, namespace, "", "reason=FailedCreate")) {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && (last == nil || eventTime(e).After(eventTime(last))) {
			last = e
		}
	}
	return last
}

// eventTime is when an event last came.
func eventTime(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return latest(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

// cutBefore is what follows a separator, or all of a text without it.
func cutBefore(text, separator string) string {
	if _, after, ok := strings.Cut(text, separator); ok {
		return after
	}
	return text
}
