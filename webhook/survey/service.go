package survey

import (
	"context"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/webhook"
)

var (
	servicesGVR       = schema.GroupVersionResource{Version: "v1", Resource: webhook.Services}
	podsGVR           = schema.GroupVersionResource{Version: "v1", Resource: webhook.Pods}
	secretsGVR        = schema.GroupVersionResource{Version: "v1", Resource: webhook.Secrets}
	endpointSlicesGVR = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: webhook.EndpointSlices}
)

// renew is the distance of reads of a mounted Secret: they are read one by one,
// which needs less permission than a watch.
const renew = 10 * time.Second

// service follows one Service and what stands behind it.
type service struct {
	survey          *Survey
	namespace, name string
	// stop ends all that the backing follows; it does not wait.
	stop           context.CancelFunc
	services       *follower[*corev1.Service]
	endpointSlices *follower[*discoveryv1.EndpointSlice]
	// mounts is filled when the pods changed; readSecrets empties it.
	readMounts chan struct{}

	mu sync.Mutex
	// pods are those that selector selects; nil while it is empty.
	pods     *follower[*corev1.Pod]
	selector string
	stopPods context.CancelFunc
	secrets  secretState
	// looked says that the Secrets were read since the pods were followed.
	secretsRead bool
}

// followService begins to follow a Service, given as namespace/name.
func (s *Survey) followService(key string) *service {
	ctx, stop := cancellable(context.Background())
	b := s.newService(key)
	b.stop = stop
	b.services.changed, b.endpointSlices.changed = func() { b.serviceChanged(ctx) }, s.notify
	for _, run := range []func(context.Context){b.services.run, b.endpointSlices.run, b.readSecrets} {
		s.running.Go(func() { run(ctx) })
	}
	return b
}

// newService makes what reads a Service, given as namespace/name.
func (s *Survey) newService(key string) *service {
	b := &service{survey: s, readMounts: make(chan struct{}, 1)}
	b.namespace, b.name, _ = strings.Cut(key, "/")
	b.services = newFollower[corev1.Service](b, servicesGVR,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", b.name).String()}, func() {})
	b.endpointSlices = newFollower[discoveryv1.EndpointSlice](b, endpointSlicesGVR,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + b.name}, func() {})
	return b
}

// newFollower makes a follower of objects in the backing's namespace.
func newFollower[T any](b *service, gvr schema.GroupVersionResource, options metav1.ListOptions, changed func()) *follower[*T] {
	return &follower[*T]{
		api: b.survey.client.Resource(gvr).Namespace(b.namespace), what: gvr.Resource + " in namespace " + b.namespace,
		options: options, read: typed[T], changed: changed,
	}
}

// typed reads an object into a type of client-go's.
func typed[T any](u *unstructured.Unstructured) (*T, error) {
	t := new(T)
	return t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t)
}

// serviceChanged follows the pods that the Service selects.
func (b *service) serviceChanged(ctx context.Context) {
	selector := ""
	if s := b.theService(); s != nil {
		selector = labels.SelectorFromSet(s.Spec.Selector).String()
	}
	b.mu.Lock()
	if selector != b.selector {
		if b.pods != nil {
			b.stopPods()
		}
		b.selector, b.pods, b.secrets, b.secretsRead = selector, nil, secretState{}, false
		if selector != "" {
			b.pods = newFollower[corev1.Pod](b, podsGVR, metav1.ListOptions{LabelSelector: selector}, b.podsChanged)
			run := b.pods.run
			ctx, b.stopPods = cancellable(ctx)
			b.survey.running.Go(func() { run(ctx) })
		}
	}
	b.mu.Unlock()
	b.survey.notify()
}

// podsChanged has the Secrets read that the pods mount.
func (b *service) podsChanged() {
	select {
	case b.readMounts <- struct{}{}:
	default:
	}
	b.survey.notify()
}

// theService is nil when it does not exist.
func (b *service) theService() *corev1.Service {
	for _, s := range b.services.values() {
		if s.Name == b.name { // a fake API server knows no field selectors
			return s
		}
	}
	return nil
}

// thePods follow those that the Service selects; nil when it selects none, or
// was not read yet.
func (b *service) thePods() *follower[*corev1.Pod] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pods
}

// synced reports whether everything was read once, or cannot be.
func (b *service) synced() bool {
	if !b.services.status().settled() || !b.endpointSlices.status().settled() {
		return false
	}
	s := b.theService()
	b.mu.Lock()
	defer b.mu.Unlock()
	return s == nil || len(s.Spec.Selector) == 0 || b.secretsRead
}

// read returns what the ladder is read from.
func (b *service) read() *webhook.Backing {
	r := &webhook.Backing{Unread: map[string]string{}}
	blind := func(resource, why string) {
		if why != "" {
			r.Unread[resource] = why
		}
	}
	// The status comes first: what is read after it can only be newer.
	blind(webhook.Services, b.services.status().unknownReason())
	blind(webhook.EndpointSlices, b.endpointSlices.status().unknownReason())
	r.Service, r.Slices = b.theService(), b.endpointSlices.values()
	if f := b.thePods(); f != nil {
		blind(webhook.Pods, f.status().unknownReason())
		r.Pods = f.values()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	blind(webhook.Secrets, b.secrets.unread)
	r.Certificates, r.MissingSecrets, r.Workloads = b.secrets.certificates, b.secrets.missing, b.secrets.workloads
	return r
}

// collections are what the backing follows.
func (b *service) collections() []collection {
	all := []collection{b.services, b.endpointSlices, mountedSecrets{b}}
	if f := b.thePods(); f != nil {
		all = append(all, f)
	}
	return all
}

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
