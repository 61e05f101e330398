package helm4

import (
	"io"
	"log/slog"
	"slices"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/validation"

	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// Client sends objects as Helm 4 does.
type Client struct{ base *helmkube.Client }

var _ engine.Client = Client{}

// NewClient makes the client of a namespace. Its requests have no context of their own:
// the transport of getter ends them.
func NewClient(getter genericclioptions.RESTClientGetter, namespace string) Client {
	base := helmkube.New(getter)
	base.Namespace = namespace
	base.Factory = factory{base.Factory, engine.Quick(getter, base.Factory.Validator)}
	base.SetLogger(slog.DiscardHandler)
	return Client{base}
}

// factory is Helm's own with another check of fields.
type factory struct {
	helmkube.Factory
	validator engine.Validator
}

// Validator implements helmkube.Factory.
func (f factory) Validator(directive string) (validation.Schema, error) {
	return f.validator(directive)
}

// Build implements engine.Client.
func (c Client) Build(manifest io.Reader, validate bool) (engine.ResourceList, error) {
	return c.base.Build(manifest, validate)
}

// Create implements engine.Client. The server cannot apply an object whose name is to be
// generated, which Helm 4 fails at: that is created.
func (c Client) Create(objects engine.ResourceList, how engine.Sending) (*engine.Result, error) {
	how.ServerSide = how.ServerSide && !slices.ContainsFunc(objects, func(info *resource.Info) bool { return info.Name == "" })
	return c.base.Create(objects, helmkube.ClientCreateOptionServerSideApply(how.ServerSide, how.ServerSide && how.ForceConflicts))
}

// Update implements engine.Client.
func (c Client) Update(original, target engine.ResourceList, how engine.Sending) (*engine.Result, error) {
	return c.base.Update(original, target,
		helmkube.ClientUpdateOptionServerSideApply(how.ServerSide, how.ServerSide && how.ForceConflicts),
		helmkube.ClientUpdateOptionThreeWayMergeForUnstructured(how.Merge && !how.ServerSide),
		helmkube.ClientUpdateOptionUpgradeClientSideFieldManager(how.ServerSide && how.Managers))
}

// Delete implements engine.Client.
func (c Client) Delete(objects engine.ResourceList, policy metav1.DeletionPropagation) (*engine.Result, []error) {
	return c.base.Delete(objects, policy)
}

// hosted is what Helm takes for its client: the step's. What Helm asks for by options,
// which cannot be read, the operation says.
type hosted struct {
	*helmkube.Client // for what no operation asks
	host             engine.Host
	how              engine.Sending
	// wait says that the objects are waited for, or until they are gone; those of hooks
	// always are.
	wait bool
	// gone are those of a release that is uninstalled.
	gone helmkube.ResourceList
}

var (
	_ helmkube.Interface            = (*hosted)(nil)
	_ helmkube.InterfaceWaitOptions = (*hosted)(nil)
)

// IsReachable says yes: the cluster was asked when the run began.
func (h *hosted) IsReachable() error { return nil }

// Build implements helmkube.Interface.
func (h *hosted) Build(manifest io.Reader, validate bool) (helmkube.ResourceList, error) {
	return h.host.Build(manifest, validate)
}

// Create implements helmkube.Interface.
func (h *hosted) Create(objects helmkube.ResourceList, _ ...helmkube.ClientCreateOption) (*helmkube.Result, error) {
	return h.host.Create(objects, h.how)
}

// Update implements helmkube.Interface.
func (h *hosted) Update(original, target helmkube.ResourceList, _ ...helmkube.ClientUpdateOption) (*helmkube.Result, error) {
	return h.host.Update(original, target, h.how)
}

// ofRelease is the policy by which Helm is told to delete the objects of a release
// that is uninstalled: that tells them from those of hooks. They are deleted in the
// background, as these are.
const (
	ofRelease = metav1.DeletePropagationForeground
	cascade   = "foreground" // the same, as Helm's flag has it
)

// Delete implements helmkube.Interface.
func (h *hosted) Delete(objects helmkube.ResourceList, policy metav1.DeletionPropagation) (*helmkube.Result, []error) {
	remove := h.host.Delete
	if policy == ofRelease {
		h.gone = objects
		if u, ok := h.host.(engine.Uninstaller); ok {
			remove = u.DeleteAll
		}
	}
	return remove(objects, metav1.DeletePropagationBackground)
}

// GetWaiter implements helmkube.Interface.
func (h *hosted) GetWaiter(helmkube.WaitStrategy) (helmkube.Waiter, error) { return waiter{h}, nil }

// GetWaiterWithOptions implements helmkube.InterfaceWaitOptions.
func (h *hosted) GetWaiterWithOptions(helmkube.WaitStrategy, ...helmkube.WaitOption) (helmkube.Waiter, error) {
	return waiter{h}, nil
}

// waiter waits as the host does; the timeouts are the step's own. Helm 4 calls it
// whether or not it was told to wait.
type waiter struct{ *hosted }

var _ helmkube.Waiter = waiter{}

// Wait implements helmkube.Waiter.
func (w waiter) Wait(objects helmkube.ResourceList, _ time.Duration) error {
	if !w.wait && !areDefinitions(objects) {
		return nil
	}
	return w.host.Wait(objects, false)
}

// areDefinitions reports whether objects are CustomResourceDefinitions only, as those of a
// chart's crds folder. They are waited for in any case (helm.sh/helm/v4
// pkg/action/install.go, installCRDs): templates ask whether their kinds are served.
func areDefinitions(objects helmkube.ResourceList) bool {
	return len(objects) > 0 && !slices.ContainsFunc(objects, func(info *resource.Info) bool {
		return info.Mapping.GroupVersionKind.GroupKind() != kinds.Definitions.GroupKind()
	})
}

// WaitWithJobs implements helmkube.Waiter.
func (w waiter) WaitWithJobs(objects helmkube.ResourceList, _ time.Duration) error {
	if !w.wait {
		return nil
	}
	return w.host.Wait(objects, true)
}

// WatchUntilReady implements helmkube.Waiter.
func (w waiter) WatchUntilReady(objects helmkube.ResourceList, _ time.Duration) error {
	return w.host.WatchUntilReady(objects)
}

// WaitForDelete implements helmkube.Waiter.
func (w waiter) WaitForDelete(objects helmkube.ResourceList, _ time.Duration) error {
	if !w.wait && slices.Equal(objects, w.gone) {
		return nil
	}
	return w.host.WaitForDelete(objects)
}
