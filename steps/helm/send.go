package helm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	helmkube "helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
)

// Create sends new objects: those of one kind side by side, and one kind after
// the other, as Helm does (helm.sh/helm/v3 pkg/kube/client.go, batchPerform).
// Objects that are held for a webhook which the release may still bring are
// left behind.
func (c *client) Create(resources helmkube.ResourceList) (*helmkube.Result, error) {
	c.progress("creating %s", count(len(resources)))
	secrets := secretsOf(resources)
	var (
		mu    sync.Mutex
		named = map[*resource.Info]string{} // by the API server
	)
	items := c.items(resources, func(info, own *resource.Info) error {
		_, err := c.Client.Create(helmkube.ResourceList{own})
		if err == nil && info.Name == "" {
			mu.Lock()
			defer mu.Unlock()
			named[info] = own.Name
		}
		return withoutSecrets(single(err), secrets)
	})
	for _, batch := range byKind(items) {
		c.send(batch...)
	}
	if err := c.note(c.gather(resources)); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock() // those that are left behind go on
	for info, name := range named {
		info.Name = name
	}
	return &helmkube.Result{Created: resources}, nil
}

// Update brings objects from one revision to another, one after the other as
// Helm does (helm.sh/helm/v3 pkg/kube/client.go, update), but for those that are
// held; see Create. As there, nothing more is sent once an object could not be
// read or created, while others that could not be changed stop nothing. Objects
// that the new revision does not have are deleted when none failed: what is held
// may be so for one of them.
func (c *client) Update(original, target helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	c.progress("updating %s", count(len(target)))
	secrets := append(secretsOf(original), secretsOf(target)...)
	original, merge, err := c.base(original, target)
	if err != nil {
		return &helmkube.Result{}, c.note(err)
	}
	update := c.Client.Update
	if merge {
		update = c.UpdateThreeWayMerge
	}
	var (
		mu   sync.Mutex
		res  = &helmkube.Result{}
		ends atomic.Bool
	)
	items := c.items(target, func(_, own *resource.Info) error {
		var before helmkube.ResourceList
		if o := original.Get(own); o != nil {
			before = helmkube.ResourceList{o}
		}
		r, err := update(before, helmkube.ResourceList{own}, force)
		mu.Lock()
		defer mu.Unlock()
		res.Created, res.Updated = append(res.Created, r.Created...), append(res.Updated, r.Updated...)
		if err != nil && len(r.Updated) == 0 {
			ends.Store(true)
		}
		return withoutSecrets(err, secrets)
	})
	for _, it := range items {
		if ends.Load() {
			break
		}
		c.send(it)
	}
	var deleted helmkube.ResourceList
	if !c.order.Failed() {
		var r *helmkube.Result
		if r, err = c.Client.Update(original.Difference(target), nil, force); err == nil {
			deleted = r.Deleted
		}
		err = withoutSecrets(err, secrets)
	}
	err = c.note(errors.Join(err, c.gather(target)))
	mu.Lock()
	defer mu.Unlock() // those that are left behind go on
	return &helmkube.Result{Created: slices.Clone(res.Created), Updated: slices.Clone(res.Updated), Deleted: deleted}, err
}

// Delete deletes objects, and those that depend on them in the background.
func (c *client) Delete(resources helmkube.ResourceList) (*helmkube.Result, []error) {
	return c.DeleteWithPropagationPolicy(resources, metav1.DeletePropagationBackground)
}

// DeleteWithPropagationPolicy deletes objects, one kind after the other as Helm
// does, but for those that are held. What is held while it is made is given up
// first: it is not there.
func (c *client) DeleteWithPropagationPolicy(resources helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if len(resources) == 0 {
		return c.Client.DeleteWithPropagationPolicy(resources, policy)
	}
	c.order.Drop(func(it *sequence.Item) bool { return among(it, resources) })
	var (
		mu   sync.Mutex
		errs []error
	)
	items := c.items(resources, func(_, own *resource.Info) error {
		_, failed := c.Client.DeleteWithPropagationPolicy(helmkube.ResourceList{own}, policy)
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, failed...) // and the others are deleted all the same
		return nil
	})
	for _, it := range items {
		it.Judged, it.Free = nil, func(webhook.Fault) bool { return true } // nothing refers to what goes
	}
	for _, batch := range byKind(items) {
		c.order.Send(batch...)
	}
	if err := c.order.Gather(func(it *sequence.Item, _ webhook.Fault) bool { return !slices.Contains(items, it) }); err != nil {
		errs = append(errs, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(errs) > 0 {
		_ = c.note(errors.Join(errs...)) // Helm keeps only their texts
		return nil, errs
	}
	return &helmkube.Result{Deleted: resources}, nil
}

// send sends a batch of items; see package sequence.
func (c *client) send(batch ...*sequence.Item) {
	for _, it := range batch {
		c.revision.sends(it)
	}
	c.order.Send(batch...)
}

// gather waits for objects that were sent, but for those that are held for what
// the release may still bring; hooks wait for themselves alone.
func (c *client) gather(resources helmkube.ResourceList) error {
	hooks := slices.ContainsFunc(resources, isHook)
	return c.order.Gather(func(it *sequence.Item, f webhook.Fault) bool {
		if hooks && !among(it, resources) {
			return true
		}
		return it.Free(f) && c.revision.mayBring(f, c.revision.of(it))
	})
}

// gathered waits for all that was left behind, and then for what Helm's own wait
// passed over because it was not there yet.
func (c *client) gathered() error {
	if err := c.note(c.order.Gather(nil)); err != nil {
		return err
	}
	return c.until(c.missed, watch.Wait{Judge: isReady})
}

// byKind parts items where the kind changes.
func byKind(items []*sequence.Item) [][]*sequence.Item {
	var out [][]*sequence.Item
	for i, it := range items {
		if i == 0 || it.Kind.Kind != items[i-1].Kind.Kind {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], it)
	}
	return out
}

// items are what is to be sent of objects, each with a copy of its object whose
// client tells the sequence when it is held.
func (c *client) items(resources helmkube.ResourceList, send func(info, own *resource.Info) error) []*sequence.Item {
	var items []*sequence.Item
	for _, info := range resources {
		it := &sequence.Item{
			Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name,
			Free:   func(f webhook.Fault) bool { return c.free(info, f) },
			Judged: func(ctx context.Context, f webhook.Fault) bool { return c.judged(ctx, info, f) },
			Send: func(ctx context.Context) error {
				own, err := c.over(ctx, info)
				if err != nil {
					return err
				}
				return send(info, own)
			},
		}
		items = append(items, it)
	}
	return items
}

// over copies an object with a client whose requests have a context: Helm's
// own have none.
func (c *client) over(ctx context.Context, info *resource.Info) (*resource.Info, error) {
	config := rest.CopyConfig(c.session.Config)
	config.ContentConfig = resource.UnstructuredPlusDefaultContentConfig()
	version := info.Mapping.GroupVersionKind.GroupVersion()
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: &within{ctx, c.rest.Transport}})
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", objectOf(info), err)
	}
	own := *info
	own.Client = client
	return &own, nil
}

// within sends requests that have no context of their own with one.
type within struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *within) RoundTrip(req *http.Request) (*http.Response, error) {
	return w.next.RoundTrip(req.WithContext(w.ctx))
}

// single takes the one error out of those that Helm counts.
func single(err error) error {
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) == 1 {
		return many.WrappedErrors()[0]
	}
	return err
}

// among reports whether an item is one of resources.
func among(it *sequence.Item, resources helmkube.ResourceList) bool {
	return slices.ContainsFunc(resources, func(info *resource.Info) bool {
		return info.Mapping.GroupVersionKind == it.Kind && info.Namespace == it.Namespace && info.Name == it.Name
	})
}
