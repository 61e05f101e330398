package survey

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
		m := webhook.Workload{Object: webhook.Object{Kind: kind, Namespace: b.namespace, Name: name}, Replicas: 1, Failure: failure}
		if replicas != nil { // the API's default is 1
			m.Replicas = *replicas
		}
		all = append(all, m)
	}
	options := metav1.ListOptions{ResourceVersion: "0"} // of the API server's own memory
	if list, err := b.survey.client.Resource(deployments).Namespace(b.namespace).List(ctx, options); err == nil {
		for i := range list.Items {
			if d, err := typed[appsv1.Deployment](&list.Items[i]); err == nil {
				add("Deployment", d.Name, d.Spec.Template, d.Spec.Replicas, failureOf(d))
			}
		}
	}
	if list, err := b.survey.client.Resource(statefulSets).Namespace(b.namespace).List(ctx, options); err == nil {
		for i := range list.Items {
			if d, err := typed[appsv1.StatefulSet](&list.Items[i]); err == nil {
				add("StatefulSet", d.Name, d.Spec.Template, d.Spec.Replicas, "")
			}
		}
	}
	return all
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
