package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	stuckLabel = "lab.kplan.dev/stuck" // the object never becomes Ready
	resync     = 30 * time.Second
	// workers is what operators have unless somebody asks for more: the default
	// of MaxConcurrentReconciles (sigs.k8s.io/controller-runtime
	// pkg/controller/controller.go) and of External Secrets' --concurrent.
	workers = 1
)

// managed is one kind that the controller reconciles, and how.
type managed struct {
	resource  schema.GroupVersionResource
	behaviour string
}

// behaviour says what an object's status should be now that it is age old, and
// after which time to look again (0: when it changes). It may create what the
// object stands for.
type behaviour func(ctx context.Context, c *controller, obj *unstructured.Unstructured, age time.Duration) (status map[string]any, again time.Duration, err error)

var behaviours = map[string]behaviour{
	"ready":          becomeReady,
	"updatestatus":   becomeOperational,
	"certificate":    issue,
	"store":          validateStore,
	"externalsecret": syncSecret,
	"template":       validateTemplate,
}

// parseManaged parses resource.version.group[:behaviour].
func parseManaged(kinds []string) ([]managed, error) {
	var out []managed
	var errs []error
	for _, k := range kinds {
		text, how, ok := strings.Cut(k, ":")
		if !ok {
			how = "ready"
		}
		gvr, _ := schema.ParseResourceArg(text)
		if gvr == nil {
			errs = append(errs, fmt.Errorf("%q is not resource.version.group", text))
			continue
		}
		if behaviours[how] == nil {
			errs = append(errs, fmt.Errorf("%q: no behaviour is called %q", k, how))
			continue
		}
		out = append(out, managed{resource: *gvr, behaviour: how})
	}
	return out, errors.Join(errs...)
}

// item is a queue entry.
type item struct {
	kind managed
	key  string
}

// generation identifies one state of an object's spec.
type generation struct {
	uid types.UID
	n   int64
}

// controller reconciles the managed kinds. Its workers end with the context
// that run gets; the queue is shut down then.
type controller struct {
	*operator
	queue  workqueue.TypedRateLimitingInterface[item]
	stores map[managed]cache.Store // filled before the workers start

	mu   sync.Mutex
	seen map[generation]time.Time // when a generation was first reconciled
}

func newController(o *operator) *controller {
	return &controller{
		operator: o,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[item](100*time.Millisecond, 5*time.Second)),
		stores: map[managed]cache.Store{},
		seen:   map[generation]time.Time{},
	}
}

func (c *controller) run(ctx context.Context) error {
	kinds, err := parseManaged(c.cfg.Manage)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.client, resync, c.cfg.WatchNamespace, nil)
	for _, kind := range kinds {
		informer := factory.ForResource(kind.resource).Informer()
		c.stores[kind] = informer.GetStore()
		add := func(obj any) {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				c.queue.Add(item{kind, key})
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    add,
			UpdateFunc: func(_, obj any) { add(obj) },
		}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for range workers {
		go c.work(ctx)
	}
	<-ctx.Done()
	c.queue.ShutDown()
	return nil
}

func (c *controller) work(ctx context.Context) {
	for {
		it, stop := c.queue.Get()
		if stop {
			return
		}
		again, err := c.reconcile(ctx, it)
		if err != nil {
			if !apierrors.IsConflict(err) {
				c.log.Warn("reconcile", "resource", it.kind.resource.Resource, "object", it.key, "error", err)
			}
			c.queue.AddRateLimited(it)
		} else {
			c.queue.Forget(it)
			if again > 0 {
				c.queue.AddAfter(it, again)
			}
		}
		c.queue.Done(it)
	}
}

// reconcile writes the status that the kind's behaviour asks for.
func (c *controller) reconcile(ctx context.Context, it item) (time.Duration, error) {
	found, exists, err := c.stores[it.kind].GetByKey(it.key)
	if err != nil || !exists {
		return 0, err
	}
	cached, ok := found.(*unstructured.Unstructured)
	if !ok || cached.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	obj := cached.DeepCopy()
	var status map[string]any
	var again time.Duration
	if obj.GetLabels()[stuckLabel] == "true" {
		status = conditionStatus(obj, condition("Ready", false, "Stuck", "the object's label "+stuckLabel+" asks for it"))
	} else if status, again, err = behaviours[it.kind.behaviour](ctx, c, obj, c.age(obj)); err != nil {
		return 0, err
	}
	old, _, _ := unstructured.NestedMap(obj.Object, "status")
	keepTransitions(old, status)
	if reflect.DeepEqual(old, status) || len(old)+len(status) == 0 {
		return again, nil
	}
	obj.Object["status"] = status
	_, err = c.client.Resource(it.kind.resource).Namespace(obj.GetNamespace()).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return again, err
}

// age is the time since this controller first saw the object's generation. An
// object that was Ready at this generation before the controller started is
// old enough for everything.
func (c *controller) age(obj *unstructured.Unstructured) time.Duration {
	observed, found, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	if settled(obj) && (!found || observed == obj.GetGeneration()) {
		return 24 * time.Hour
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := generation{obj.GetUID(), obj.GetGeneration()}
	first, ok := c.seen[g]
	if !ok {
		first = time.Now()
		c.seen[g] = first
	}
	return time.Since(first)
}

func settled(obj *unstructured.Unstructured) bool {
	if field(obj.Object, "status", "updateStatus") == "operational" {
		return true
	}
	if valid, _, _ := unstructured.NestedBool(obj.Object, "status", "valid"); valid {
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if field(c, "type") == "Ready" && field(c, "status") == "True" {
			return true
		}
	}
	return false
}
