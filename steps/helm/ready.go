package helm

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/steps/internal/watch"
)

var (
	deployment  = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()
	daemonSet   = appsv1.SchemeGroupVersion.WithKind("DaemonSet").GroupKind()
	statefulSet = appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind()
	replicaSet  = appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind()
	job         = batchv1.SchemeGroupVersion.WithKind("Job").GroupKind()
	pod         = corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
)

// awaited are the kinds that Helm's own wait looks at, besides Jobs
// (helm.sh/helm/v3 pkg/kube/ready.go, IsReady).
var awaited = []schema.GroupKind{
	deployment, daemonSet, statefulSet, replicaSet, pod,
	{Kind: "PersistentVolumeClaim"},
	{Kind: "ReplicationController"},
	{Kind: "Service"},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
}

func isAwaited(kind schema.GroupVersionKind) bool { return slices.Contains(awaited, kind.GroupKind()) }

// isCustom reports whether a kind is none of Kubernetes' own: a custom resource, or
// what tells how its API stands (an APIService). Helm does not wait for these; the
// step does, once Helm is done.
func isCustom(kind schema.GroupVersionKind) bool {
	return !scheme.Scheme.IsGroupRegistered(kind.Group) && !isAwaited(kind)
}

// glance is how often Helm looks at objects, and how long enough must last
// therefore: what comes and goes with a container that crashes Helm does not see.
const glance = 2 * time.Second

// isReady judges an object as all steps do. What Helm would not wait for any more is
// ready too, unless the plan has a rule for it.
func (c *client) isReady(t watch.Target, u *unstructured.Unstructured) watch.Reading {
	r := watch.Judge(c.ctx, c.session)(t, u)
	if r.State == watch.Reached || u == nil || u.GetDeletionTimestamp() != nil || !isEnough(u) || c.session.Ready.Own(u.GroupVersionKind().GroupKind()) {
		return r
	}
	return watch.Reading{State: watch.Reached, Reason: r.Reason + ", which Helm does not wait for", Lasting: glance}
}

// isEnough reports whether an object is ready for Helm (helm.sh/helm/v3
// pkg/kube/ready.go).
func isEnough(u *unstructured.Unstructured) bool {
	switch u.GroupVersionKind().GroupKind() {
	case deployment:
		return is(u, enoughOfDeployment)
	case daemonSet:
		return is(u, enoughOfDaemonSet)
	case statefulSet:
		return is(u, enoughOfStatefulSet)
	case replicaSet:
		return is(u, enoughOfReplicaSet)
	case pod:
		return is(u, func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		})
	}
	return false
}

// is reads an object as what it is. One that cannot be read is nothing yet.
func is[T any](u *unstructured.Unstructured, judge func(*T) bool) bool {
	o := new(T)
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o) == nil && judge(o)
}

// enoughOfDeployment takes the pods that are not of the newest version for ready,
// since the Deployment alone does not tell: unless they are, these are fewer.
func enoughOfDeployment(d *appsv1.Deployment) bool {
	want := ptr.Deref(d.Spec.Replicas, 1)
	ready := d.Status.ReadyReplicas - (d.Status.Replicas - d.Status.UpdatedReplicas)
	return d.Status.ObservedGeneration == d.Generation && ready >= want-mayLack(d, want)
}

// mayLack is how many of a Deployment's pods may be unavailable (k8s.io/kubernetes
// pkg/controller/deployment/util, MaxUnavailable).
func mayLack(d *appsv1.Deployment, want int32) int32 {
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || d.Spec.Strategy.RollingUpdate == nil || want == 0 {
		return 0
	}
	none := intstr.FromInt32(0)
	surge, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(d.Spec.Strategy.RollingUpdate.MaxSurge, none), int(want), true)
	if err != nil {
		return 0
	}
	lack, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(d.Spec.Strategy.RollingUpdate.MaxUnavailable, none), int(want), false)
	switch {
	case err != nil:
		return 0
	case surge == 0 && lack == 0:
		return 1 // both were rounded to nothing, and one of them must not be
	}
	return min(int32(lack), want)
}

func enoughOfDaemonSet(d *appsv1.DaemonSet) bool {
	s := d.Status
	switch {
	case s.ObservedGeneration != d.Generation:
		return false
	case d.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		return true
	case s.UpdatedNumberScheduled != s.DesiredNumberScheduled || d.Spec.UpdateStrategy.RollingUpdate == nil:
		return false
	}
	want := int(s.DesiredNumberScheduled)
	lack, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1)), want, true)
	return err != nil || int(s.NumberReady) >= want-lack
}

func enoughOfStatefulSet(s *appsv1.StatefulSet) bool {
	switch {
	case s.Status.ObservedGeneration != s.Generation:
		return false
	case s.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType:
		return true
	}
	want, partition := ptr.Deref(s.Spec.Replicas, 1), int32(0)
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		partition = ptr.Deref(rolling.Partition, 0)
	}
	return s.Status.UpdatedReplicas >= want-partition && s.Status.ReadyReplicas == want &&
		(partition > 0 || s.Status.CurrentRevision == s.Status.UpdateRevision)
}

// enoughOfReplicaSet asks, where Helm reads the pods, whether there are all that
// there can be.
func enoughOfReplicaSet(r *appsv1.ReplicaSet) bool {
	all := r.Status.Replicas == ptr.Deref(r.Spec.Replicas, 1) || slices.ContainsFunc(r.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
		return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
	})
	return r.Status.ObservedGeneration == r.Generation && all && r.Status.ReadyReplicas == r.Status.Replicas
}
