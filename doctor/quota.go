package doctor

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/plan/finding"
)

// exceeded is what the API server says of a quota (apiserver
// pkg/admission/plugin/resourcequota/controller.go).
var exceeded = regexp.MustCompile(`exceeded quota: ([^,\s]+), requested: (\S+), used: (\S+), limited: (\S+)`)

var quotaFull = Check{
	Rule: finding.Rule{
		ID: "quota-full", Severity: finding.Error,
		Summary:     "A ResourceQuota keeps pods from being made.",
		Explanation: "The ReplicaSet, StatefulSet, DaemonSet or Job asks again, less and less often. A Deployment shows no more than pods that are missing.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		var looked []string
		for _, q := range c.list(ctx, quotaResource, true) {
			namespace := q.GetNamespace()
			if slices.Contains(looked, namespace) {
				continue
			}
			looked = append(looked, namespace)
			found = append(found, c.quotas(ctx, namespace)...)
		}
		return found
	},
}

// quotas finds the quotas of a namespace for which an object lacks pods now.
func (c *Cluster) quotas(ctx context.Context, namespace string) []finding.Finding {
	newest := map[string]*corev1.Event{} // by Kind/namespace/name of what lacks pods
	for _, e := range all[corev1.Event](c.selected(ctx, eventResource, namespace, "", "reason=FailedCreate")) {
		of := object(e.InvolvedObject.Kind, namespace, e.InvolvedObject.Name)
		if n := newest[of]; n == nil || eventTime(e).After(eventTime(n)) {
			newest[of] = e
		}
	}
	lacking := map[string][]string{} // by quota
	told := map[string][]string{}
	for of, e := range newest {
		match := exceeded.FindStringSubmatch(e.Message)
		if match == nil || !c.lacksPods(ctx, e.InvolvedObject) {
			continue
		}
		lacking[match[1]] = append(lacking[match[1]], of)
		told[match[1]] = match
	}
	var found []finding.Finding
	for name, objects := range lacking {
		slices.Sort(objects)
		m := told[name]
		found = append(found, finding.Finding{
			Object:  object("ResourceQuota", namespace, name),
			Message: "has no room for the pods of " + several(objects) + ": requested " + m[2] + ", used " + m[3] + ", limited to " + m[4],
			Hint:    "raise it, or make room: " + describe("resourcequota", namespace, name),
			Evidence: []finding.Evidence{
				{Object: objects[0], Field: "event FailedCreate", Value: clause(m[0])},
			},
		})
	}
	return found
}

// lacksPods reports whether an object has fewer pods than it wants: an event tells of
// what was, perhaps an hour ago.
func (c *Cluster) lacksPods(ctx context.Context, o corev1.ObjectReference) bool {
	switch o.Kind {
	case "ReplicaSet":
		u, _ := c.get(ctx, appsv1.SchemeGroupVersion.WithResource("replicasets"), o.Namespace, o.Name)
		s := as[appsv1.ReplicaSet](u)
		return s != nil && s.UID == o.UID && s.Status.Replicas < ptr.Deref(s.Spec.Replicas, 1)
	case "StatefulSet":
		u, _ := c.get(ctx, statefulSetResource, o.Namespace, o.Name)
		s := as[appsv1.StatefulSet](u)
		return s != nil && s.UID == o.UID && s.Status.Replicas < ptr.Deref(s.Spec.Replicas, 1)
	case "DaemonSet":
		u, _ := c.get(ctx, daemonSetResource, o.Namespace, o.Name)
		s := as[appsv1.DaemonSet](u)
		return s != nil && s.UID == o.UID && s.Status.CurrentNumberScheduled < s.Status.DesiredNumberScheduled
	case "Job":
		u, _ := c.get(ctx, jobResource, o.Namespace, o.Name)
		j := as[batchv1.Job](u)
		if j == nil || j.UID != o.UID {
			return false
		}
		_, ended := jobEnd(j)
		return !ended && cmp.Or(j.Status.Active, j.Status.Succeeded) == 0
	}
	return false
}
