package webhook

import (
	"context"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watch follows what one webhook depends on, and tells of every change. A kind
// that may not be watched is left out: the pace is by backoff then.
type watch struct {
	client  kubernetes.Interface
	fault   Fault
	changed func(change)

	mu sync.Mutex
	// ready counts the ready addresses of each EndpointSlice by name.
	ready map[string]int
	known bool
}

// run watches until ctx ends, and returns when all of its goroutines have ended.
func (w *watch) run(ctx context.Context) {
	w.ready = map[string]int{}
	var running sync.WaitGroup
	start := func(inf cache.SharedInformer) {
		// It tries again by itself where it may not watch, and need not log that.
		_ = inf.SetWatchErrorHandler(func(*cache.Reflector, error) {})
		running.Go(func() { inf.Run(ctx.Done()) })
	}
	if w.fault.Kind == Admission {
		validating, mutating := w.configurations()
		start(validating)
		start(mutating)
	}
	if w.fault.Service != "" {
		slices := w.endpoints()
		start(slices)
		w.sync(ctx, slices)
	}
	running.Wait()
}

// endpoints watches the EndpointSlices of the Service.
func (w *watch) endpoints() cache.SharedInformer {
	api := w.client.DiscoveryV1().EndpointSlices(w.fault.Namespace)
	selector := discoveryv1.LabelServiceName + "=" + w.fault.Service
	inf := w.informer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			return api.Watch(ctx, o)
		},
	}, &discoveryv1.EndpointSlice{})
	_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.slice(o, false) },
		UpdateFunc: func(_, o any) { w.slice(o, false) },
		DeleteFunc: func(o any) { w.slice(o, true) },
	})
	return inf
}

// informer makes an informer of one kind. It never resyncs, which would only
// repeat what its cache holds: a watch that ends is begun anew with a list, and
// slow tries go on whatever the watches say.
func (w *watch) informer(lw *cache.ListWatch, kind runtime.Object) cache.SharedInformer {
	return cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(lw, w.client), kind, 0)
}

// sync tells of a Service that has no EndpointSlice at all, for which no event comes.
func (w *watch) sync(ctx context.Context, inf cache.SharedInformer) {
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		return
	}
	w.mu.Lock()
	news := !w.known
	w.known = true
	w.mu.Unlock()
	if news {
		w.changed(change{backed: unbacked})
	}
}

// slice takes one EndpointSlice into account.
func (w *watch) slice(obj any, gone bool) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	w.mu.Lock()
	before, was := w.total(), w.known
	w.ready[s.Name] = 0
	if !gone {
		w.ready[s.Name] = readyAddresses(s)
	}
	after := w.total()
	w.known = true
	w.mu.Unlock()
	if was && before == after {
		return
	}
	w.changed(change{backed: readingOf(after)})
}

func readingOf(ready int) reading {
	if ready > 0 {
		return backed
	}
	return unbacked
}

func (w *watch) total() int {
	n := 0
	for _, r := range w.ready {
		n += r
	}
	return n
}

// readyAddresses counts the addresses that a proxy would send to. No ready
// condition counts as ready (k8s.io/api discovery/v1, EndpointConditions).
func readyAddresses(s *discoveryv1.EndpointSlice) int {
	n := 0
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n += len(e.Addresses)
		}
	}
	return n
}

// configurations watches the webhook configurations: a CA bundle that is
// filled in, or an entry that goes away, lets a request pass.
func (w *watch) configurations() (validating, mutating cache.SharedInformer) {
	api := w.client.AdmissionregistrationV1()
	v, m := api.ValidatingWebhookConfigurations(), api.MutatingWebhookConfigurations()
	validating = w.informer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return v.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return v.Watch(ctx, o)
		},
	}, &admissionv1.ValidatingWebhookConfiguration{})
	mutating = w.informer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return m.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return m.Watch(ctx, o)
		},
	}, &admissionv1.MutatingWebhookConfiguration{})
	h := cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if version(before) != version(after) {
				w.again()
			}
		},
		DeleteFunc: func(any) { w.again() },
	}
	_, _ = validating.AddEventHandler(h)
	_, _ = mutating.AddEventHandler(h)
	return validating, mutating
}

// again tells of a change with the reading as it was.
func (w *watch) again() {
	w.mu.Lock()
	r := unknown
	if w.known {
		r = readingOf(w.total())
	}
	w.mu.Unlock()
	w.changed(change{backed: r, configuration: true})
}

func version(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}
