package survey

import (
	"context"
	"slices"
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
	"k8s.io/client-go/dynamic"

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
	client          dynamic.Interface
	namespace, name string
	service, slices *process
	stopSecrets     func()

	mu       sync.Mutex
	stopped  bool
	pods     *process
	selector string
	// certificates and blind are read by the goroutine of readSecrets, which
	// looked at least once when looked is set.
	certificates []webhook.Certificate
	blind        string
	looked       bool
	// mounts is filled when the pods changed; readSecrets empties it.
	mounts chan struct{}
}

// back begins to follow a Service, given as namespace/name.
func (s *Survey) back(key string) *backing {
	b := &backing{survey: s, client: s.client, mounts: make(chan struct{}, 1)}
	b.namespace, b.name, _ = strings.Cut(key, "/")
	b.service = s.start(&follower{
		api: s.client.Resource(services).Namespace(b.namespace), resource: webhook.Services, changed: b.routed,
		options: metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", b.name).String()},
	})
	b.slices = s.start(&follower{
		api: s.client.Resource(slicesOf).Namespace(b.namespace), resource: webhook.EndpointSlices, changed: s.notify,
		options: metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + b.name},
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	b.stopSecrets = func() { cancel(context.Canceled) }
	s.running.Go(func() { b.readSecrets(ctx) })
	return b
}

// stop ends all that the backing follows; it does not wait.
func (b *backing) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.service.stop()
	b.slices.stop()
	b.stopSecrets()
	if b.pods != nil {
		b.pods.stop()
	}
}

// routed follows the pods that the Service selects.
func (b *backing) routed() {
	selector := ""
	if s := b.theService(); s != nil {
		selector = labels.SelectorFromSet(s.Spec.Selector).String()
	}
	b.mu.Lock()
	if !b.stopped && selector != b.selector {
		if b.pods != nil {
			b.pods.stop()
			b.pods = nil
		}
		if b.selector = selector; selector != "" {
			b.pods = b.survey.start(&follower{
				api: b.client.Resource(pods).Namespace(b.namespace), resource: webhook.Pods, changed: b.peopled,
				options: metav1.ListOptions{LabelSelector: selector},
			})
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

func (b *backing) theService() *corev1.Service {
	for _, s := range convert[corev1.Service](b.service.seen().objects) {
		if s.Name == b.name { // a fake API server knows no field selectors
			return s
		}
	}
	return nil
}

// thePods are those that the Service selects; a Service that was not read yet,
// or that selects none, has none.
func (b *backing) thePods() seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pods == nil {
		return seen{synced: true}
	}
	return b.pods.seen()
}

// synced tells whether everything was read once, or cannot be.
func (b *backing) synced() bool {
	for _, s := range []seen{b.service.seen(), b.slices.seen(), b.thePods()} {
		if !s.synced && s.unread == "" {
			return false
		}
	}
	service := b.theService()
	b.mu.Lock()
	defer b.mu.Unlock()
	selects := service != nil && len(service.Spec.Selector) > 0
	return !selects || (b.pods != nil && b.looked)
}

// read gives what the ladder is read from.
func (b *backing) read() *webhook.Backing {
	service, slices, pods := b.service.seen(), b.slices.seen(), b.thePods()
	r := &webhook.Backing{
		Service: b.theService(),
		Slices:  convert[discoveryv1.EndpointSlice](slices.objects),
		Pods:    convert[corev1.Pod](pods.objects),
		Unread:  map[string]string{},
	}
	for resource, s := range map[string]seen{webhook.Services: service, webhook.EndpointSlices: slices, webhook.Pods: pods} {
		switch {
		case s.unread != "":
			r.Unread[resource] = s.unread
		case !s.synced:
			r.Unread[resource] = resource + " were not read yet"
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Certificates = b.certificates
	if b.blind != "" {
		r.Unread[webhook.Secrets] = b.blind
	}
	return r
}

// convert makes typed objects; what does not convert is left out.
func convert[T any](objects []*unstructured.Unstructured) []*T {
	typed := make([]*T, 0, len(objects))
	for _, u := range objects {
		t := new(T)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t) == nil {
			typed = append(typed, t)
		}
	}
	return typed
}

// readSecrets reads the certificates of mounted Secrets, when the pods change
// and from time to time, until ctx ends.
func (b *backing) readSecrets(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.mounts:
		case <-time.After(renew):
		}
		pods := b.thePods()
		if !pods.synced && pods.unread == "" {
			continue
		}
		certificates, blind := b.certificatesOf(ctx, mounted(convert[corev1.Pod](pods.objects)))
		b.mu.Lock()
		news := !b.looked || !slices.EqualFunc(certificates, b.certificates, sameCertificate)
		b.certificates, b.blind, b.looked = certificates, blind, true
		b.mu.Unlock()
		if news && ctx.Err() == nil {
			b.survey.notify()
		}
	}
}

// certificatesOf takes the certificates out of Secrets, and leaves their keys.
// The text says why it cannot.
func (b *backing) certificatesOf(ctx context.Context, names []string) (certificates []webhook.Certificate, blind string) {
	for _, name := range names {
		u, err := b.client.Resource(secrets).Namespace(b.namespace).Get(ctx, name, metav1.GetOptions{})
		if forbidden(err) {
			return certificates, "may not get secrets"
		}
		s := &corev1.Secret{}
		if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s) != nil {
			continue // the Secret may not be there yet: its pod waits for it
		}
		if chain := webhook.ParseCertificates(s.Data[corev1.TLSCertKey]); len(chain) > 0 {
			certificates = append(certificates, webhook.Certificate{
				Source: webhook.Object{Kind: "Secret", Namespace: b.namespace, Name: name}, Chain: chain,
			})
		}
	}
	return certificates, ""
}

func sameCertificate(a, b webhook.Certificate) bool {
	return a.Source == b.Source && a.Chain[0].Equal(b.Chain[0])
}

// mounted lists the Secrets that pods mount.
func mounted(pods []*corev1.Pod) []string {
	var names []string
	for _, p := range pods {
		for _, v := range p.Spec.Volumes {
			if v.Secret != nil {
				names = append(names, v.Secret.SecretName)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
