package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kplan-dev/kplan/webhook/match"
)

// need is a request that must succeed for a webhook to start, or for people to mend it.
type need struct {
	// text names what is asked for, for people.
	text    string
	request match.Request
	// own: it makes a pod of the webhook's own.
	own bool
	// system: it is in kube-system, and not of the webhook.
	system bool
	// review: see Cluster.sendsReviews.
	review bool
	// reason is why the webhook is called for it.
	reason string
}

// needs are the requests that a webhook depends on, made up.
func (c *Cluster) needs(ctx context.Context, h hook) []need {
	namespace := h.Client.Service.Namespace
	var needs []need
	add := func(n need, gvr schema.GroupVersionResource, o *unstructured.Unstructured, operation admissionv1.OperationType) {
		n.request = match.Request{
			Operation: operation, Resource: gvr, Kind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Object: o,
		}
		if operation == admissionv1.Update {
			n.request.OldObject = o
		}
		needs = append(needs, n)
	}
	if namespace != metav1.NamespaceSystem {
		add(need{text: "pods of kube-system", system: true}, podResource, madeUp("v1", "Pod", metav1.NamespaceSystem, nil), admissionv1.Create)
	}
	if pod := c.podOf(ctx, h); pod != nil {
		add(need{text: "its own pods in namespace " + namespace, own: true}, podResource, pod, admissionv1.Create)
	}
	release, helm := namespace, ""
	if ns, name, ok := strings.Cut(h.Owner.Release, "/"); ok {
		release, helm = ns, name
	}
	record := madeUp("v1", "Secret", release, map[string]string{"owner": "helm", "name": helm, "status": "deployed", "version": "1"})
	record.SetName(fmt.Sprintf("sh.helm.release.v1.%s.v1", helm))
	record.Object["type"] = "helm.sh/release.v1"
	add(need{text: "Helm's records in namespace " + release}, secretResource, record, admissionv1.Create)
	add(need{text: "Leases of namespace " + namespace}, coordinationv1.SchemeGroupVersion.WithResource("leases"),
		madeUp("coordination.k8s.io/v1", "Lease", namespace, nil), admissionv1.Update)
	add(need{text: "TokenReviews, by which the API server's callers are known", review: true}, authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"),
		madeUp("authentication.k8s.io/v1", "TokenReview", "", nil), admissionv1.Create)
	return needs
}

// madeUp is an object of which nothing but its place and labels is told.
func madeUp(version, kind, namespace string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName("kplan-doctor")
	o.SetLabels(labels)
	return o
}

// podOf is a pod of the webhook as it would be made again: like one that is there, or by the
// template of what makes them. It is nil when nothing tells how its pods look.
func (c *Cluster) podOf(ctx context.Context, h hook) *unstructured.Unstructured {
	if h.Backing == nil {
		return nil
	}
	var pod corev1.Pod
	switch {
	case len(h.Backing.Pods) > 0:
		p := h.Backing.Pods[0]
		pod.Labels, pod.Annotations, pod.Spec = p.Labels, p.Annotations, p.Spec
	case len(h.Backing.Workloads) > 0:
		w := h.Backing.Workloads[0]
		gvr := appsv1.SchemeGroupVersion.WithResource(strings.ToLower(w.Kind) + "s")
		o, _ := c.get(ctx, gvr, w.Namespace, w.Name)
		d := as[struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}](o)
		if d == nil {
			return nil
		}
		pod.Labels, pod.Annotations, pod.Spec = d.Spec.Template.Labels, d.Spec.Template.Annotations, d.Spec.Template.Spec
	default:
		return nil
	}
	pod.Namespace, pod.Name = h.Client.Service.Namespace, "kplan-doctor"
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		return nil
	}
	u := &unstructured.Unstructured{Object: o}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	return u
}

// serverVersion is the minor version of the API server.
func (c *Cluster) serverVersion(ctx context.Context) (int, error) {
	v, err := discovery.ToServerVersionInterfaceWithContext(c.discovery).ServerVersionWithContext(ctx)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimRight(v.Minor, "+")) // some builds end in +
}
