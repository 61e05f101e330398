package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
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
	tell := func(all []removal.Kept) {
		for _, k := range all {
			r.Report(runner.Report{Type: runner.TypeLog, Message: k.Object + " stays: " + k.Reason})
		}
	}
	tell(e.Kept)
	if err := remover.Remove(ctx, e.Orphans); err != nil {
		return err
	}
	if all.last().Info.Status != engine.StatusUninstalled {
		if err := u.uninstall(ctx, conn, remover, e); err != nil {
			return err
		}
	}
	for _, objects := range [][]removal.Object{e.objects, e.hooks, e.definitions} {
		if err := remover.Remove(ctx, objects); err != nil {
			return err
		}
	}
	// Others may have come, or gone, since the release was looked at.
	if err := u.occupy(ctx, s, e); err != nil {
		return err
	}
	known := len(e.Kept)
	e.keepSpaces()
	tell(e.Kept[known:])
	if err := u.vacate(ctx, remover, e, false); err != nil {
		return err
	}
	if err := u.forget(ctx, conn, all); err != nil {
		return err
	}
	if err := u.vacate(ctx, remover, e, true); err != nil {
		return err
	}
	message := fmt.Sprintf("release %s/%s uninstalled, %s", u.Namespace, u.Name, count(len(e.Goes())))
	if n := len(e.Kept); n > 0 {
		message += fmt.Sprintf("; %d stay", n)
	}
	r.Report(runner.Report{Type: runner.TypeResult, Message: message})
	return nil
}

// forget deletes the release's record.
func (u Uninstall) forget(ctx context.Context, conn *connection, all history) error {
	for _, revision := range slices.Backward(all) {
		if _, err := conn.records.Delete(engine.Key(revision.Name, revision.Version)); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return kubeerr.Explain(fmt.Errorf("deleting the record of revision %d: %w", revision.Version, cause(ctx, err)),
				kubeerr.Op{Verb: "delete", Namespace: u.Namespace})
		}
	}
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
	err := conn.Over(client, resumed{conn.records}).Uninstall(engine.Uninstall{Name: u.Name, KeepHistory: true})
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

var _ engine.Uninstaller = (*uninstaller)(nil)

// Build reads objects. What is to be deleted need not be of a kind that the API
// server still serves.
func (c *uninstaller) Build(r io.Reader, validate bool) (engine.ResourceList, error) {
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

// DeleteAll implements engine.Uninstaller.
func (c *uninstaller) DeleteAll(resources engine.ResourceList, _ metav1.DeletionPropagation) (*engine.Result, []error) {
	if c.failure = c.remove(); c.failure != nil {
		return nil, []error{c.failure}
	}
	return &engine.Result{Deleted: resources}, nil
}

// resumed leaves out of a release that was being uninstalled the hooks that have run
// to their end for it.
type resumed struct{ engine.Records }

// Query implements engine.Records.
func (d resumed) Query(labels map[string]string) ([]*engine.Release, error) {
	all, err := d.Records.Query(labels)
	for _, r := range all {
		if r.Info.Status != engine.StatusUninstalling {
			continue
		}
		for _, h := range r.Hooks {
			if ran := h.LastRun; ran.Phase == engine.HookPhaseSucceeded && !ran.StartedAt.Before(r.Info.Deleted) && len(h.Events) == 1 {
				h.Events = nil
			}
		}
	}
	return all, err
}
