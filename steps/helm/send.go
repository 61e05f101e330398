package helm

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

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
	c.records.begin(resources)
	c.sign(resources)
	secrets := secretsOf(resources)
	var (
		mu    sync.Mutex
		named = map[*resource.Info]string{} // by the API server
	)
	items := c.items(resources, func(info, own *resource.Info) error {
		_, err := c.Client.Create(helmkube.ResourceList{own})
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
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock() // those that are left behind go on
	for info, name := range named {
		info.Name = name
	}
	return &helmkube.Result{Created: resources}, nil
}

// sign labels the release's namespace with the plan when Helm makes it, so that it can
// be taken away again. Helm makes it before anything of the release.
func (c *client) sign(resources helmkube.ResourceList) {
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

// Update brings objects from one revision to another, one after the other as
// Helm does (helm.sh/helm/v3 pkg/kube/client.go, update), but for those that are
// held; see Create. As there, nothing more is sent once an object could not be
// read or created, while others that could not be changed stop nothing. Objects
// that the new revision does not have are deleted when none failed: what is held
// may be so for one of them.
func (c *client) Update(original, target helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	c.progress("updating %s", count(len(target)))
	c.records.begin(target)
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
		if err == nil {
			c.keep(own, len(r.Created) > 0)
		}
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

// gathered waits for all that was left behind, and then for what Helm's own wait
// passed over because it was not there yet.
func (c *client) gathered() error {
	if err := c.note(c.order.Gather(nil)); err != nil {
		return err
	}
	return c.until(c.missed, watch.Wait{Judge: c.isReady})
}
