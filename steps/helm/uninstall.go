package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	helmkube "helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Uninstall removes one release: as Helm does, with its hooks, but in an order in
// which the objects can go, each awaited; then what Helm leaves of hooks, and its
// record last. Whatever interrupts it, another run goes on.
type Uninstall struct {
	removal.Options
	Name, Namespace string
	// CRDs lets the CustomResourceDefinitions of the release go too, and all custom
	// resources of their kinds.
	CRDs bool
	// Beside are other releases that go too, as NAMESPACE/NAME.
	Beside []string
}

// Run uninstalls the release.
func (u Uninstall) Run(ctx context.Context, s *cluster.Session, r runner.Reporter) error {
	conn, all, err := u.open(ctx, s, r)
	if err != nil {
		return err
	}
	defer conn.client.order.Close()
	if len(all) == 0 {
		r.Report(runner.Report{Type: runner.TypeResult, Message: fmt.Sprintf("release %s/%s is not there", u.Namespace, u.Name), Unchanged: true})
		return nil
	}
	e, err := u.extent(ctx, s, all)
	if err != nil {
		return err
	}
	remover := &removal.Remover{Options: u.Options, Session: s, Reporter: r, Total: len(e.Orphans) + len(e.Goes())}
	remover.Mend(ctx)
	for _, k := range e.Kept {
		r.Report(runner.Report{Type: runner.TypeLog, Message: k.Object + " stays: " + k.Reason})
	}
	if err := remover.Remove(ctx, e.Orphans); err != nil {
		return err
	}
	if all.last().Info.Status != release.StatusUninstalled {
		if err := u.uninstall(ctx, conn, remover, e); err != nil {
			return err
		}
	}
	for _, objects := range [][]removal.Object{e.objects, e.hooks, e.definitions} {
		if err := remover.Remove(ctx, objects); err != nil {
			return err
		}
	}
	for _, revision := range slices.Backward(all) {
		if _, err := conn.Releases.Delete(revision.Name, revision.Version); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return kubeerr.Explain(fmt.Errorf("deleting the record of revision %d: %w", revision.Version, cause(ctx, err)),
				kubeerr.Op{Verb: "delete", Namespace: u.Namespace})
		}
	}
	message := fmt.Sprintf("release %s/%s uninstalled, %s", u.Namespace, u.Name, count(len(e.Goes())))
	if n := len(e.Kept); n > 0 {
		message += fmt.Sprintf("; %d stay", n)
	}
	r.Report(runner.Report{Type: runner.TypeResult, Message: message})
	return nil
}

// open connects Helm to the session, and reads the release's revisions.
func (u Uninstall) open(ctx context.Context, s *cluster.Session, r runner.Reporter) (*connection, history, error) {
	a := &Action{Chart: &charts.Chart{ReleaseName: u.Name, Namespace: u.Namespace, Spec: plan.Helm{Wait: plan.WaitReady}}}
	conn, err := a.connect(ctx, s, r)
	if err != nil {
		return nil, nil, err
	}
	all, err := a.history(ctx, conn)
	return conn, all, err
}

// uninstall has Helm uninstall the release, but for its record.
func (u Uninstall) uninstall(ctx context.Context, conn *connection, remover *removal.Remover, e *Extent) error {
	client := &uninstaller{client: conn.client, remove: func() error { return remover.Remove(ctx, e.objects) }}
	conn.KubeClient = client
	conn.Releases.Driver = resumed{conn.Releases.Driver}
	a := action.NewUninstall(conn.Configuration)
	a.KeepHistory, a.Timeout = true, forever
	_, err := a.Run(u.Name)
	switch {
	case client.failure != nil:
		return client.failure
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	causes := []error{err}
	if f := conn.client.failure; f != nil {
		causes = append(causes, f)
	}
	return explain(kubeerr.Reword(clean.Line(err.Error()), causes...), u.Namespace)
}

// uninstaller is Helm's client for an uninstall: it deletes in an order of its own.
type uninstaller struct {
	*client
	remove  func() error
	failure error
}

var _ helmkube.InterfaceDeletionPropagation = (*uninstaller)(nil)

// Build reads objects. What is to be deleted need not be of a kind that the API
// server still serves.
func (c *uninstaller) Build(r io.Reader, validate bool) (helmkube.ResourceList, error) {
	if validate { // of a hook that is to be created
		return c.client.Build(r, validate)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	objects, err := charts.Decode(string(text))
	if err != nil {
		return nil, err
	}
	var left bytes.Buffer
	for _, o := range objects {
		_, err := c.session.Cluster.Mapping(c.ctx, o.GroupVersionKind())
		if meta.IsNoMatchError(err) {
			continue
		}
		b, err := o.MarshalJSON()
		if err != nil {
			return nil, err
		}
		left.WriteString("---\n")
		left.Write(b)
	}
	return c.client.Build(&left, validate)
}

// DeleteWithPropagationPolicy deletes the objects of the release: Helm calls it once,
// and Delete for those of hooks.
func (c *uninstaller) DeleteWithPropagationPolicy(resources helmkube.ResourceList, _ metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if c.failure = c.remove(); c.failure != nil {
		return nil, []error{c.failure}
	}
	return &helmkube.Result{Deleted: resources}, nil
}

// resumed leaves out of a release that was being uninstalled the hooks that have run
// to their end for it.
type resumed struct{ driver.Driver }

// Query implements driver.Queryor.
func (d resumed) Query(labels map[string]string) ([]*release.Release, error) {
	all, err := d.Driver.Query(labels)
	for _, r := range all {
		if r.Info.Status != release.StatusUninstalling {
			continue
		}
		for _, h := range r.Hooks {
			if ran := h.LastRun; ran.Phase == release.HookPhaseSucceeded && !ran.StartedAt.Before(r.Info.Deleted) && len(h.Events) == 1 {
				h.Events = nil
			}
		}
	}
	return all, err
}
