package stall

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// creation says why an object cannot make its pods. A Deployment tells that in a
// condition, others in events only, which count while pods are missing.
func (v *View) creation(u *unstructured.Unstructured) []Stall {
	why := ""
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		if c, _ := item.(map[string]any); c["type"] == "ReplicaFailure" && c["status"] == "True" {
			why, _ = c["message"].(string)
		}
	}
	if why == "" && lacksPods(u) {
		for _, e := range v.warnings(u.GetUID(), "FailedCreate") {
			why = e.Message
			break
		}
	}
	class := Policy
	switch {
	case strings.Contains(why, "looking up service account"):
		class = Account
	case strings.Contains(why, "exceeded quota"):
		class = Quota
	case strings.Contains(why, "admission webhook ") && strings.Contains(why, " denied the request"):
	case !strings.Contains(why, "is forbidden: "): // a webhook that judges pods may come
		return nil
	}
	return []Stall{{Class: class, Reason: "its pods cannot be made: " + oneLine(why)}}
}

// lacksPods reports whether an object has fewer pods than it wants, or a Job had none.
func lacksPods(u *unstructured.Unstructured) bool {
	number := func(without int64, path ...string) int64 {
		if n, ok, err := unstructured.NestedInt64(u.Object, path...); ok && err == nil {
			return n
		}
		return without
	}
	switch u.GetKind() {
	case "DaemonSet":
		return number(0, "status", "currentNumberScheduled") < number(0, "status", "desiredNumberScheduled")
	case "Job":
		// One that had a pod makes another after a while.
		return number(0, "status", "active")+number(0, "status", "failed")+number(0, "status", "succeeded") == 0
	}
	return number(0, "status", "replicas") < number(1, "spec", "replicas")
}

// claimsOf says which of a pod's claims no volume comes for.
func (v *View) claimsOf(p *corev1.Pod) []Stall {
	for _, volume := range p.Spec.Volumes {
		name := ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			name = p.Name + "-" + volume.Name
		}
		if c := v.claims[name]; c != nil {
			if all := v.claim(c); len(all) > 0 {
				all[0].Reason = "pod " + p.Name + " cannot be scheduled: " + all[0].Reason
				return all
			}
		}
	}
	return nil
}

// claim says why no volume comes for a claim.
func (v *View) claim(c *corev1.PersistentVolumeClaim) []Stall {
	if c.Status.Phase != corev1.ClaimPending || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
		return nil
	}
	name := "PersistentVolumeClaim " + c.Name
	if class := c.Spec.StorageClassName; class == nil {
		return []Stall{{Class: Volume, Reason: name + " names no storage class, and the cluster has no default one"}}
	}
	for _, e := range v.warnings(c.UID, "ProvisioningFailed") {
		if strings.Contains(e.Message, "not found") {
			return []Stall{{Class: Volume, Reason: fmt.Sprintf("%s: %s", name, oneLine(e.Message))}}
		}
	}
	return nil
}

// Restarts remembers for a run how often containers had been started anew when they were
// first seen: attempts that follow count on. It is safe for concurrent use.
type Restarts struct{ seen sync.Map }

func (r *Restarts) first(key restart, count int32) int32 {
	if r == nil {
		return count
	}
	known, _ := r.seen.LoadOrStore(key, count)
	return known.(int32)
}
