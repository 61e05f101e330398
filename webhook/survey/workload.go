package survey

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/webhook"
)

var (
	deployments  = appsv1.SchemeGroupVersion.WithResource("deployments")
	statefulSets = appsv1.SchemeGroupVersion.WithResource("statefulsets")
)

// workloads reads what is to make pods that the Service selects. What cannot be read is
// left out: it would only explain more.
func (b *service) workloads(ctx context.Context) []webhook.Workload {
	s := b.theService()
	if s == nil || len(s.Spec.Selector) == 0 {
		return nil
	}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	var all []webhook.Workload
	add := func(kind, name string, template corev1.PodTemplateSpec, replicas *int32, failure string) {
		if !selector.Matches(labels.Set(template.Labels)) {
			return
		}
		object := webhook.Object{Kind: kind, Namespace: b.namespace, Name: name}
		all = append(all, webhook.Workload{Object: object, Replicas: ptr.Deref(replicas, 1), Failure: failure}) // 1 is the API's default
	}
	eachOf(ctx, b, deployments, func(d *appsv1.Deployment) {
		add("Deployment", d.Name, d.Spec.Template, d.Spec.Replicas, failureOf(d))
	})
	eachOf(ctx, b, statefulSets, func(s *appsv1.StatefulSet) { add("StatefulSet", s.Name, s.Spec.Template, s.Spec.Replicas, "") })
	return all
}

// eachOf lists objects in the Service's namespace, as far as they can be read.
func eachOf[T any](ctx context.Context, s *service, gvr schema.GroupVersionResource, each func(*T)) {
	options := metav1.ListOptions{ResourceVersion: "0"} // of the API server's own memory
	list, err := s.survey.client.Resource(gvr).Namespace(s.namespace).List(ctx, options)
	if err != nil {
		return
	}
	for i := range list.Items {
		if object, err := typed[T](&list.Items[i]); err == nil {
			each(object)
		}
	}
}

// failureOf is why the pods of a Deployment are refused; "" when they are not.
func failureOf(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}
