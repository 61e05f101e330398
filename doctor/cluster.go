package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// page is how many objects come with one answer.
const page = 500

// Cluster is a cluster as one examination sees it: each thing is read once, when the
// first check asks for it. It is safe for concurrent use.
type Cluster struct {
	// Now is the time of the examination.
	Now time.Time

	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	config    *rest.Config
	// namespaces are those that are examined; none stands for all.
	namespaces []string

	mu     sync.Mutex
	read   map[string]func() any
	unread map[string]bool
	blind  atomic.Bool // see Report.Blind
}

// New makes the view of a cluster for one examination. namespaces bound what is read of
// namespaced kinds; none stands for all. The configuration wants no rate limit.
func New(config *rest.Config, namespaces ...string) (*Cluster, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	c := &Cluster{Now: time.Now(), config: config, namespaces: namespaces, read: map[string]func() any{}, unread: map[string]bool{}}
	var errs [3]error
	c.dynamic, errs[0] = dynamic.NewForConfigAndClient(config, client)
	c.metadata, errs[1] = metadata.NewForConfigAndClient(config, client)
	c.discovery, errs[2] = discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	return c, nil
}

// once reads something the first time that it is asked for.
func once[T any](c *Cluster, key string, read func() T) T {
	c.mu.Lock()
	f, ok := c.read[key]
	if !ok {
		f = sync.OnceValue(func() any { return read() })
		c.read[key] = f
	}
	c.mu.Unlock()
	return f().(T)
}

// list returns the objects of a resource, all or those of the namespace that is
// examined; none of a resource that is not served or may not be read.
func (c *Cluster) list(ctx context.Context, gvr schema.GroupVersionResource, namespaced bool) []*unstructured.Unstructured {
	return once(c, "list "+gvr.String(), func() []*unstructured.Unstructured {
		var out []*unstructured.Unstructured
		for _, namespace := range c.scope(namespaced) {
			err := pages(func(o metav1.ListOptions) (string, error) {
				l, err := c.dynamic.Resource(gvr).Namespace(namespace).List(ctx, o)
				if err != nil {
					return "", err
				}
				for i := range l.Items {
					out = append(out, &l.Items[i])
				}
				return l.GetContinue(), nil
			})
			c.note(gvr, err)
		}
		return out
	})
}

// meta returns the metadata of the objects of a resource with labels, as list does. Of
// Secrets nothing else is read in numbers.
func (c *Cluster) meta(ctx context.Context, gvr schema.GroupVersionResource, namespaced bool, labels string) []metav1.PartialObjectMetadata {
	return once(c, "meta "+gvr.String()+" "+labels, func() []metav1.PartialObjectMetadata {
		var out []metav1.PartialObjectMetadata
		for _, namespace := range c.scope(namespaced) {
			err := pages(func(o metav1.ListOptions) (string, error) {
				o.LabelSelector = labels
				l, err := c.metadata.Resource(gvr).Namespace(namespace).List(ctx, o)
				if err != nil {
					return "", err
				}
				out = append(out, l.Items...)
				return l.Continue, nil
			})
			c.note(gvr, err)
		}
		return out
	})
}

// get returns one object; nil when it is not there. known is false when it may not be
// read.
func (c *Cluster) get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (o *unstructured.Unstructured, known bool) {
	type answer struct {
		o     *unstructured.Unstructured
		known bool
	}
	a := once(c, "get "+gvr.String()+" "+namespace+"/"+name, func() answer {
		o, err := c.dynamic.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return answer{known: true}
		}
		if err != nil {
			c.note(gvr, err)
			return answer{}
		}
		return answer{o, true}
	})
	return a.o, a.known
}

// webhooks returns how all webhooks stand that are configured, in the order of their
// configurations. The conversion webhook of a CRD that is not converted is left out: it
// is never called (k8s.io/apiextensions-apiserver pkg/apiserver/conversion/converter.go).
func (c *Cluster) webhooks(ctx context.Context) []survey.Status {
	return once(c, "webhooks", func() []survey.Status {
		var objects []*unstructured.Unstructured
		for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			objects = append(objects, c.list(ctx, admissionv1.SchemeGroupVersion.WithResource(resource), false)...)
		}
		for _, d := range c.definitions(ctx) {
			if d.Spec.Conversion.Strategy != "Webhook" || !d.converted() {
				continue
			}
			if crd, _ := c.get(ctx, definitionResource, "", d.Name); crd != nil {
				objects = append(objects, crd)
			}
		}
		var entries []webhook.Entry
		for _, o := range objects {
			of, err := webhook.EntriesOf(o)
			if err != nil {
				c.miss(err.Error())
			}
			entries = append(entries, of...)
		}
		slices.SortStableFunc(entries, func(a, b webhook.Entry) int { return strings.Compare(a.Configuration, b.Configuration) })
		statuses, unread := survey.Look(ctx, c.dynamic, entries)
		for _, text := range unread {
			c.miss(text)
		}
		return statuses
	})
}

// scope are the namespaces to list; "" is all.
func (c *Cluster) scope(namespaced bool) []string {
	if namespaced && len(c.namespaces) > 0 {
		return c.namespaces
	}
	return []string{metav1.NamespaceAll}
}

// within reports whether a namespace is examined; what has none is.
func (c *Cluster) within(namespace string) bool {
	return len(c.namespaces) == 0 || namespace == "" || slices.Contains(c.namespaces, namespace)
}

// note tells of what could not be read. A resource that is not served has no objects.
func (c *Cluster) note(gvr schema.GroupVersionResource, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		c.miss(fmt.Sprintf("%s: %v", gvr.GroupResource(), err))
		if gvr.Group == admissionv1.GroupName {
			c.blind.Store(true)
		}
	}
}

func (c *Cluster) miss(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread[text] = true
}

func (c *Cluster) unreadable() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for text := range c.unread {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// pages reads all pages of a list.
func pages(read func(metav1.ListOptions) (next string, err error)) error {
	o := metav1.ListOptions{Limit: page}
	for {
		next, err := read(o)
		if err != nil || next == "" {
			return err
		}
		o.Continue = next
	}
}

// as is an object as its Go type; nil when it does not fit.
func as[T any](o *unstructured.Unstructured) *T {
	if o == nil {
		return nil
	}
	out := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out) != nil {
		return nil
	}
	return out
}

// all are the objects of a resource as their Go type.
func all[T any](objects []*unstructured.Unstructured) []*T {
	var out []*T
	for _, o := range objects {
		if t := as[T](o); t != nil {
			out = append(out, t)
		}
	}
	return out
}

// object names an object.
func object(kind, namespace, name string) string {
	return webhook.Object{Kind: kind, Namespace: namespace, Name: name}.String()
}
