package helm3

import (
	"io"
	"time"

	helmkube "helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/engine/helm4"
)

// client sends objects as Helm 3 does, and as Helm 4 does those that are applied by
// the server.
type client struct {
	*helmkube.Client
	server helm4.Client
}

var _ engine.Client = client{}

// Build implements engine.Client.
func (c client) Build(manifest io.Reader, validate bool) (engine.ResourceList, error) {
	list, err := c.Client.Build(manifest, validate)
	return engine.ResourceList(list), err
}

// Create implements engine.Client.
func (c client) Create(objects engine.ResourceList, how engine.Sending) (*engine.Result, error) {
	if how.ServerSide {
		return c.server.Create(objects, how)
	}
	return resultOf(c.Client.Create(theirs(objects)))
}

// Update implements engine.Client.
func (c client) Update(original, target engine.ResourceList, how engine.Sending) (*engine.Result, error) {
	if how.ServerSide {
		return c.server.Update(original, target, how)
	}
	update := c.Client.Update
	if how.Merge {
		update = c.UpdateThreeWayMerge
	}
	return resultOf(update(theirs(original), theirs(target), false))
}

// Delete implements engine.Client.
func (c client) Delete(objects engine.ResourceList, policy metav1.DeletionPropagation) (*engine.Result, []error) {
	r, errs := c.DeleteWithPropagationPolicy(theirs(objects), policy)
	out, _ := resultOf(r, nil)
	return out, errs
}

func theirs(list engine.ResourceList) helmkube.ResourceList { return helmkube.ResourceList(list) }

func resultOf(r *helmkube.Result, err error) (*engine.Result, error) {
	if r == nil {
		return nil, err
	}
	return &engine.Result{
		Created: engine.ResourceList(r.Created), Updated: engine.ResourceList(r.Updated), Deleted: engine.ResourceList(r.Deleted),
	}, err
}

// hosted is what Helm takes for its client: the step's. Around each call the revision
// that Helm makes is brought from one side to the other.
type hosted struct {
	*helmkube.Client // for what no operation asks
	host             engine.Host
	books            *books
	how              engine.Sending
}

var (
	_ helmkube.Interface                    = (*hosted)(nil)
	_ helmkube.InterfaceExt                 = (*hosted)(nil)
	_ helmkube.InterfaceThreeWayMerge       = (*hosted)(nil)
	_ helmkube.InterfaceDeletionPropagation = (*hosted)(nil)
)

// exchange runs a call of the host.
func (h *hosted) exchange(call func() error) error {
	made := h.books.made
	if made == nil {
		return call()
	}
	if _, err := h.books.pull(made); err != nil {
		return err
	}
	err := call()
	if e := h.books.push(made); err == nil {
		err = e
	}
	return err
}

// IsReachable says yes: the cluster was asked when the run began.
func (h *hosted) IsReachable() error { return nil }

// Build implements helmkube.Interface.
func (h *hosted) Build(manifest io.Reader, validate bool) (helmkube.ResourceList, error) {
	list, err := h.host.Build(manifest, validate)
	return theirs(list), err
}

// Create implements helmkube.Interface.
func (h *hosted) Create(objects helmkube.ResourceList) (*helmkube.Result, error) {
	return h.sent(func() (*engine.Result, error) {
		return h.host.Create(engine.ResourceList(objects), h.how)
	})
}

// Update implements helmkube.Interface.
func (h *hosted) Update(original, target helmkube.ResourceList, _ bool) (*helmkube.Result, error) {
	return h.sent(func() (*engine.Result, error) {
		return h.host.Update(engine.ResourceList(original), engine.ResourceList(target), h.how)
	})
}

// UpdateThreeWayMerge implements helmkube.InterfaceThreeWayMerge.
func (h *hosted) UpdateThreeWayMerge(original, target helmkube.ResourceList, _ bool) (*helmkube.Result, error) {
	how := h.how
	how.Merge = true
	return h.sent(func() (*engine.Result, error) {
		return h.host.Update(engine.ResourceList(original), engine.ResourceList(target), how)
	})
}

func (h *hosted) sent(send func() (*engine.Result, error)) (*helmkube.Result, error) {
	var r *engine.Result
	err := h.exchange(func() (err error) {
		r, err = send()
		return err
	})
	return theirResult(r), err
}

func theirResult(r *engine.Result) *helmkube.Result {
	if r == nil {
		return nil
	}
	return &helmkube.Result{Created: theirs(r.Created), Updated: theirs(r.Updated), Deleted: theirs(r.Deleted)}
}

// Delete implements helmkube.Interface.
func (h *hosted) Delete(objects helmkube.ResourceList) (*helmkube.Result, []error) {
	return h.deleted(objects, metav1.DeletePropagationBackground, false)
}

// DeleteWithPropagationPolicy implements helmkube.InterfaceDeletionPropagation. Helm
// calls it for the objects of a release that is uninstalled, and for no others.
func (h *hosted) DeleteWithPropagationPolicy(objects helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	return h.deleted(objects, policy, true)
}

func (h *hosted) deleted(objects helmkube.ResourceList, policy metav1.DeletionPropagation, all bool) (r *helmkube.Result, errs []error) {
	remove := h.host.Delete
	if u, ok := h.host.(engine.Uninstaller); ok && all {
		remove = u.DeleteAll
	}
	err := h.exchange(func() error {
		var own *engine.Result
		own, errs = remove(engine.ResourceList(objects), policy)
		r = theirResult(own)
		return nil
	})
	if err != nil {
		errs = append(errs, err)
	}
	return r, errs
}

// Wait implements helmkube.Interface. The timeout is the step's own.
func (h *hosted) Wait(objects helmkube.ResourceList, _ time.Duration) error {
	return h.exchange(func() error { return h.host.Wait(engine.ResourceList(objects), false) })
}

// WaitWithJobs implements helmkube.Interface.
func (h *hosted) WaitWithJobs(objects helmkube.ResourceList, _ time.Duration) error {
	return h.exchange(func() error { return h.host.Wait(engine.ResourceList(objects), true) })
}

// WatchUntilReady implements helmkube.Interface.
func (h *hosted) WatchUntilReady(objects helmkube.ResourceList, _ time.Duration) error {
	return h.exchange(func() error { return h.host.WatchUntilReady(engine.ResourceList(objects)) })
}

// WaitForDelete implements helmkube.InterfaceExt.
func (h *hosted) WaitForDelete(objects helmkube.ResourceList, _ time.Duration) error {
	return h.exchange(func() error { return h.host.WaitForDelete(engine.ResourceList(objects)) })
}
