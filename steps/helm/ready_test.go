package helm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	helmkube "helm.sh/helm/v3/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// object is what judges of readiness have in common.
type object interface {
	runtime.Object
	metav1.Object
}

// helmSays is what Helm's own wait makes of an object, beside others.
func helmSays(t *testing.T, o object, others ...runtime.Object) bool {
	t.Helper()
	client := fake.NewClientset(append(others, o)...)
	checker := helmkube.NewReadyChecker(client, nil, helmkube.PausedAsReady(true))
	ready, err := checker.IsReady(t.Context(), &resource.Info{Object: o, Namespace: o.GetNamespace(), Name: o.GetName()})
	require.NoError(t, err)
	return ready
}

// weSay is what the step makes of it.
func weSay(t *testing.T, o object) watch.Reading {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kinds[0])
	before := u.DeepCopy()
	reading := (&client{ctx: t.Context(), sender: sender{session: &cluster.Session{}}}).isReady(watch.Target{}, u)
	require.Equal(t, before, u, "judging changes nothing")
	return reading
}

func named() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", Namespace: "n", UID: "u", Generation: 2, Labels: map[string]string{"a": "b"}}
}

// tolerances are values of maxUnavailable.
func tolerances() []intstr.IntOrString {
	return []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromString("25%"), intstr.FromString("50%"), intstr.FromString("100%")}
}

// The step waits for a Deployment exactly as long as Helm does, in each state
// that a rollout can be in.
func TestReadyDeploymentsAsHelm(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	template := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	}
	surge := intstr.FromInt32(1)
	check := func(strategy appsv1.DeploymentStrategy, observed int64, replicas, updated, ready, old int32) {
		d := &appsv1.Deployment{ObjectMeta: named(), Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: selector, Template: template("new"), Strategy: strategy,
		}, Status: appsv1.DeploymentStatus{
			ObservedGeneration: observed, Replicas: updated + old, UpdatedReplicas: updated, ReadyReplicas: ready + old, AvailableReplicas: ready + old,
		}}
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded"}}
		owner := []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "x-1", Namespace: "n", Labels: selector.MatchLabels, OwnerReferences: owner},
			Spec:       appsv1.ReplicaSetSpec{Template: template("new")},
			Status:     appsv1.ReplicaSetStatus{Replicas: updated, ReadyReplicas: ready},
		}
		want, got := helmSays(t, d, rs), weSay(t, d)
		require.Equal(t, want, got.State == watch.Reached, "%s %v observed %d: %d of %d updated, %d of them ready, %d old: %s",
			strategy.Type, strategy.RollingUpdate, observed, updated, replicas, ready, old, got.Reason)
	}
	for _, observed := range []int64{1, 2} {
		for replicas := range int32(5) {
			for updated := range replicas + 1 {
				for ready := range updated + 1 {
					for old := range int32(3) {
						check(appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, observed, replicas, updated, ready, old)
						for _, most := range tolerances() {
							rolling := &appsv1.RollingUpdateDeployment{MaxUnavailable: &most, MaxSurge: &surge}
							check(appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: rolling}, observed, replicas, updated, ready, old)
						}
					}
				}
			}
		}
	}
}

// The same of a DaemonSet.
func TestReadyDaemonSetsAsHelm(t *testing.T) {
	check := func(strategy appsv1.DaemonSetUpdateStrategy, observed int64, desired, updated, ready int32) {
		d := &appsv1.DaemonSet{ObjectMeta: named(), Spec: appsv1.DaemonSetSpec{UpdateStrategy: strategy}, Status: appsv1.DaemonSetStatus{
			ObservedGeneration: observed, DesiredNumberScheduled: desired, CurrentNumberScheduled: desired,
			UpdatedNumberScheduled: updated, NumberReady: ready, NumberAvailable: ready,
		}}
		want, got := helmSays(t, d), weSay(t, d)
		require.Equal(t, want, got.State == watch.Reached, "%s %v observed %d: %d of %d updated, %d ready: %s",
			strategy.Type, strategy.RollingUpdate, observed, updated, desired, ready, got.Reason)
	}
	for _, observed := range []int64{1, 2} {
		for desired := range int32(5) {
			for updated := range desired + 1 {
				for ready := range desired + 1 {
					check(appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}, observed, desired, updated, ready)
					for _, most := range tolerances() {
						rolling := &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &most}
						check(appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: rolling}, observed, desired, updated, ready)
					}
				}
			}
		}
	}
}

// The step waits for a StatefulSet no longer than Helm does.
func TestReadyStatefulSetsAsHelm(t *testing.T) {
	check := func(strategy appsv1.StatefulSetUpdateStrategy, observed int64, replicas, updated, ready, extra int32, revision string) {
		s := &appsv1.StatefulSet{ObjectMeta: named(), Spec: appsv1.StatefulSetSpec{Replicas: &replicas, UpdateStrategy: strategy}, Status: appsv1.StatefulSetStatus{
			ObservedGeneration: observed, Replicas: replicas + extra, CurrentReplicas: replicas - updated, UpdatedReplicas: updated, ReadyReplicas: ready,
			CurrentRevision: revision, UpdateRevision: "new",
		}}
		got := weSay(t, s)
		if helmSays(t, s) {
			require.Equal(t, watch.Reached, got.State, "%s %v observed %d: %d of %d updated, %d ready, %d extra, revision %s: %s",
				strategy.Type, strategy.RollingUpdate, observed, updated, replicas, ready, extra, revision, got.Reason)
		}
		if ready < replicas && strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
			require.NotEqual(t, watch.Reached, got.State)
		}
	}
	for _, observed := range []int64{1, 2} {
		for replicas := range int32(4) {
			for updated := range replicas + 1 {
				for ready := range replicas + 1 {
					for _, revision := range []string{"old", "new"} {
						check(appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, observed, replicas, updated, ready, 0, revision)
						for partition := range int32(3) {
							for extra := range int32(2) {
								rolling := &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
								check(appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: rolling}, observed, replicas, updated, ready, extra, revision)
							}
						}
					}
				}
			}
		}
	}
}

// What Helm takes for ready is ready, whatever else the object says.
func TestReadyAsHelm(t *testing.T) {
	two := int32(2)
	pod := func(ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("x-", ready), Namespace: "n", Labels: named().Labels}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
		}}
	}
	behind := pod(corev1.ConditionTrue)
	behind.Generation, behind.Status.ObservedGeneration = 2, 1
	set := func(made, ready int32, conditions ...appsv1.ReplicaSetCondition) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: named(),
			Spec:       appsv1.ReplicaSetSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: named().Labels}},
			Status:     appsv1.ReplicaSetStatus{ObservedGeneration: 2, Replicas: made, FullyLabeledReplicas: made, ReadyReplicas: ready, AvailableReplicas: 0, Conditions: conditions},
		}
	}
	quota := appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"}
	for name, c := range map[string]struct {
		object object
		others []runtime.Object
		ready  bool
	}{
		"a pod that is ready":                                       {pod(corev1.ConditionTrue), nil, true},
		"a pod that is ready, and was changed since":                {behind, nil, true},
		"a pod that is not":                                         {pod(corev1.ConditionFalse), nil, false},
		"a ReplicaSet whose pods are ready, not yet for long":       {set(2, 2), []runtime.Object{pod(corev1.ConditionTrue)}, true},
		"a ReplicaSet whose pods are not ready":                     {set(2, 1), []runtime.Object{pod(corev1.ConditionTrue), pod(corev1.ConditionFalse)}, false},
		"a ReplicaSet that may make no more pods than those it has": {set(1, 1, quota), []runtime.Object{pod(corev1.ConditionTrue)}, true},
		"a claim that is bound":                                     {&corev1.PersistentVolumeClaim{ObjectMeta: named(), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}, nil, true},
		"a claim that is not":                                       {&corev1.PersistentVolumeClaim{ObjectMeta: named(), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}, nil, false},
		"a Service elsewhere":                                       {&corev1.Service{ObjectMeta: named(), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}, nil, true},
		"a Service with an address": {&corev1.Service{
			ObjectMeta: named(), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1"},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
		}, nil, true},
		"a Service without one":       {&corev1.Service{ObjectMeta: named(), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1"}}, nil, false},
		"a Deployment that is paused": {&appsv1.Deployment{ObjectMeta: named(), Spec: appsv1.DeploymentSpec{Replicas: &two, Paused: true}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.ready, helmSays(t, c.object, c.others...), "Helm")
			reading := weSay(t, c.object)
			require.Equal(t, c.ready, reading.State == watch.Reached, reading.Reason)
		})
	}
}
