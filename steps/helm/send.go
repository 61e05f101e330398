package helm

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
)

// Create sends new objects: those of one kind side by side, and one kind after
// the other, as Helm does (helm.sh/helm/v3 pkg/kube/client.go, batchPerform).
// Objects that are held for a webhook which the release may still bring are
// left behind.
func (c *client) Create(resources engine.ResourceList, how engine.Sending) (*engine.Result, error) {
	c.progress("creating %s", count(len(resources)))
	c.records.begin(resources)
	c.hooks.begin(c.records.made, resources)
	c.sign(resources)
	secrets := secretsOf(resources)
	var (
		mu    sync.Mutex
		named = map[*resource.Info]string{} // by the API server
	)
	items := c.items(resources, func(info, own *resource.Info) error {
		_, err := c.Client.Create(engine.ResourceList{own}, how)
		if err == nil {
			c.keep(own, true)
		}
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
		c.hooks.end(runner.HookFailed, err)
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock() // those that are left behind go on
	for info, name := range named {
		info.Name = name
	}
	return &engine.Result{Created: resources}, nil
}

// sign labels the release's namespace with the plan when Helm makes it, so that it can
// be taken away again. Helm makes it before anything of the release.
func (c *client) sign(resources engine.ResourceList) {
	if c.plan == "" || len(resources) != 1 || c.revision.later != nil || resources[0].Mapping.GroupVersionKind.GroupKind() != namespaceKind {
		return
	}
	if o, err := meta.Accessor(resources[0].Object); err == nil {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[planLabel] = c.plan
		o.SetLabels(labels)
	}
}

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// Update brings objects from one revision to another: those of one kind side by
// side, where Helm has no order but that of their names (helm.sh/helm/v3
// pkg/kube/client.go, update), and one kind after the other, but for those that are
// held; see Create. As there, no kind more is sent once an object could not be read
// or created, while others that could not be changed stop nothing. Objects that the
// new revision does not have are deleted when none failed: what is held may be so for
// one of them.
func (c *client) Update(original, target engine.ResourceList, how engine.Sending) (*engine.Result, error) {
	c.progress("updating %s", count(len(target)))
	c.records.begin(target)
	c.ahead.expect(target)
	secrets := append(secretsOf(original), secretsOf(target)...)
	original, merge, err := c.base(original, target)
	if err != nil {
		return &engine.Result{}, c.note(err)
	}
	how.Merge = how.Merge || merge
	var (
		mu   sync.Mutex
		res  = &engine.Result{}
		ends atomic.Bool
	)
	items := c.items(target, func(_, own *resource.Info) error {
		var before engine.ResourceList
		if o := original.Get(own); o != nil {
			from := *o
			from.Client = own.Client // Helm's has no context
			before = engine.ResourceList{&from}
		}
		r, err := c.Client.Update(before, engine.ResourceList{own}, how)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			c.keep(own, len(r.Created) > 0)
		}
		res.Created, res.Updated = append(res.Created, r.Created...), append(res.Updated, r.Updated...)
		if err != nil && len(r.Updated) == 0 {
			ends.Store(true)
		}
		return withoutSecrets(err, secrets)
	})
	for _, batch := range byKind(items) {
		for _, once := range apart(batch) {
			if ends.Load() {
				break
			}
			c.send(once...)
		}
	}
	var deleted engine.ResourceList
	if !c.order.Failed() {
		var r *engine.Result
		if r, err = c.Client.Update(original.Difference(target), nil, how); err == nil {
			deleted = r.Deleted
		}
		err = withoutSecrets(err, secrets)
	}
	err = c.note(errors.Join(err, c.gather(target)))
	mu.Lock()
	defer mu.Unlock() // those that are left behind go on
	return &engine.Result{Created: slices.Clone(res.Created), Updated: slices.Clone(res.Updated), Deleted: deleted}, err
}

// Delete deletes objects, one kind after the other as Helm does, but for those that
// are held. What is held while it is made is given up first: it is not there.
func (c *client) Delete(resources engine.ResourceList, policy metav1.DeletionPropagation) (*engine.Result, []error) {
	if len(resources) == 0 {
		return c.Client.Delete(resources, policy)
	}
	c.order.Drop(func(it *sequence.Item) bool { return among(it, resources) })
	var (
		mu   sync.Mutex
		errs []error
	)
	items := c.items(resources, func(_, own *resource.Info) error {
		_, failed := c.Client.Delete(engine.ResourceList{own}, policy)
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
	return &engine.Result{Deleted: resources}, nil
}

// gathered waits for all that was left behind, and then for what Helm's own wait
// passed over because it was not there yet.
func (c *client) gathered() error {
	if err := c.note(c.order.Gather(nil)); err != nil {
		return err
	}
	return c.until(c.missed, watch.Wait{Judge: c.isReady})
}
