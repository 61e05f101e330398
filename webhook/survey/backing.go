package survey

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
)

var (
	services = schema.GroupVersionResource{Version: "v1", Resource: webhook.Services}
	pods     = schema.GroupVersionResource{Version: "v1", Resource: webhook.Pods}
	secrets  = schema.GroupVersionResource{Version: "v1", Resource: webhook.Secrets}
	slicesOf = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: webhook.EndpointSlices}
)

// renew is the distance of reads of a mounted Secret: they are read one by one,
// which needs less permission than a watch.
const renew = 10 * time.Second

// backing follows one Service and what stands behind it.
type backing struct {
	survey          *Survey
	namespace, name string
	// stop ends all that the backing follows; it does not wait.
	stop    context.CancelFunc
	service *follower[*corev1.Service]
	slices  *follower[*discoveryv1.EndpointSlice]
	// mounts is filled when the pods changed; readSecrets empties it.
	mounts chan struct{}

	mu sync.Mutex
	// pods are those that selector selects; nil while it is empty.
	pods     *follower[*corev1.Pod]
	selector string
	stopPods context.CancelFunc
	secrets  mounted
	// looked says that the Secrets were read since the pods were followed.
	looked bool
}

// back begins to follow a Service, given as namespace/name.
func (s *Survey) back(key string) *backing {
	ctx, stop := cancellable(context.Background())
	b := &backing{survey: s, stop: stop, mounts: make(chan struct{}, 1)}
	b.namespace, b.name, _ = strings.Cut(key, "/")
	b.service = newFollower[corev1.Service](b, services,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", b.name).String()}, func() { b.routed(ctx) })
	b.slices = newFollower[discoveryv1.EndpointSlice](b, slicesOf,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + b.name}, s.notify)
	for _, run := range []func(context.Context){b.service.run, b.slices.run, b.readSecrets} {
		s.running.Go(func() { run(ctx) })
	}
	return b
}

// newFollower makes a follower of objects in the backing's namespace.
func newFollower[T any](b *backing, gvr schema.GroupVersionResource, options metav1.ListOptions, changed func()) *follower[*T] {
	return &follower[*T]{
		relist: relist,
		api:    b.survey.client.Resource(gvr).Namespace(b.namespace), what: gvr.Resource + " in namespace " + b.namespace,
		options: options, read: typed[T], changed: changed,
	}
}

// typed reads an object into a type of client-go's.
func typed[T any](u *unstructured.Unstructured) (*T, error) {
	t := new(T)
	return t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t)
}

// routed follows the pods that the Service selects.
func (b *backing) routed(ctx context.Context) {
	selector := ""
	if s := b.theService(); s != nil {
		selector = labels.SelectorFromSet(s.Spec.Selector).String()
	}
	b.mu.Lock()
	if selector != b.selector {
		if b.pods != nil {
			b.stopPods()
		}
		b.selector, b.pods, b.secrets, b.looked = selector, nil, mounted{}, false
		if selector != "" {
			b.pods = newFollower[corev1.Pod](b, pods, metav1.ListOptions{LabelSelector: selector}, b.peopled)
			run := b.pods.run
			ctx, b.stopPods = cancellable(ctx)
			b.survey.running.Go(func() { run(ctx) })
		}
	}
	b.mu.Unlock()
	b.survey.notify()
}

// peopled has the Secrets read that the pods mount.
func (b *backing) peopled() {
	select {
	case b.mounts <- struct{}{}:
	default:
	}
	b.survey.notify()
}

// theService is nil when it does not exist.
func (b *backing) theService() *corev1.Service {
	for _, s := range b.service.values() {
		if s.Name == b.name { // a fake API server knows no field selectors
			return s
		}
	}
	return nil
}

// thePods follow those that the Service selects; nil when it selects none, or
// was not read yet.
func (b *backing) thePods() *follower[*corev1.Pod] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pods
}

// synced tells whether everything was read once, or cannot be.
func (b *backing) synced() bool {
	if !b.service.status().settled() || !b.slices.status().settled() {
		return false
	}
	s := b.theService()
	b.mu.Lock()
	defer b.mu.Unlock()
	return s == nil || len(s.Spec.Selector) == 0 || b.looked
}

// read gives what the ladder is read from.
func (b *backing) read() *webhook.Backing {
	r := &webhook.Backing{Unread: map[string]string{}}
	blind := func(resource, why string) {
		if why != "" {
			r.Unread[resource] = why
		}
	}
	// The status comes first: what is read after it can only be newer.
	blind(webhook.Services, b.service.status().blind())
	blind(webhook.EndpointSlices, b.slices.status().blind())
	r.Service, r.Slices = b.theService(), b.slices.values()
	if f := b.thePods(); f != nil {
		blind(webhook.Pods, f.status().blind())
		r.Pods = f.values()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	blind(webhook.Secrets, b.secrets.unread)
	r.Certificates, r.Absent, r.Makers = b.secrets.certificates, b.secrets.absent, b.secrets.makers
	return r
}

// collections are what the backing follows.
func (b *backing) collections() []collection {
	all := []collection{b.service, b.slices, mountedSecrets{b}}
	if f := b.thePods(); f != nil {
		all = append(all, f)
	}
	return all
}
