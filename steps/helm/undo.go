package helm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/transport"
)

const (
	// cleanup bounds a rollback or an uninstall after a failure. It counts from
	// the end of the attempt's context: the runner gives an action up that has
	// not ended runner.DefaultGrace after that.
	cleanup = 40 * time.Second
	// record is how long writing down how that ended may take after cleanup.
	record = 10 * time.Second
)

// undone adds to the error of a failed attempt what became of the release.
func (o *operation) undone(err error) error {
	what, failure := o.undo()
	switch {
	case failure != nil:
		return fmt.Errorf("%w; %s failed: %w", err, what, kubeerr.Explain(failure, kubeerr.Op{Namespace: o.Namespace}))
	case what == "":
		return err
	}
	o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "after the failure, " + what + " succeeded"})
	return fmt.Errorf("%w; %s succeeded", err, what)
}

// undo rolls back or uninstalls what this attempt made of the release, when the
// step asks for it, and says what it did. It has time of its own, since the
// step's may be over.
func (o *operation) undo() (what string, err error) {
	if o.Spec.OnFailure != plan.RollbackRelease && o.Spec.OnFailure != plan.UninstallRelease {
		return "", nil
	}
	end := time.Now()
	if deadline, ok := o.ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	work, stop := o.until(end.Add(cleanup))
	defer stop()
	records, stopRecords := o.until(end.Add(cleanup + record))
	defer stopRecords()
	// The step's own transport ends with the step; this goes past it, and is held for no webhook.
	session, err := o.client.session.Cluster.Session(cluster.Options{Wrap: func(next http.RoundTripper) http.RoundTripper {
		return &transport.Bound{Next: next, Context: work, Records: records}
	}})
	if err != nil {
		return "undoing it", err
	}
	conn, err := o.connect(work, session, o.reporter)
	if err != nil {
		return "undoing it", err
	}
	defer conn.client.order.Close()
	found, err := conn.records.Query(engine.Of(o.ReleaseName))
	all := newestFirst(found)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return "", nil
	case err != nil:
		// Not knowing what was deployed is no leave to remove it.
		return "undoing it", fmt.Errorf("reading the release's history: %w", cause(work, err))
	case !same(all.last(), o.records.made):
		return "", nil // it was never written, or somebody else has gone on from it
	case o.Spec.OnFailure == plan.UninstallRelease && o.installs:
		return o.uninstall(conn, len(all) > 1)
	}
	if to := o.rollbackTo(all); o.Spec.OnFailure == plan.RollbackRelease && to != nil {
		return o.rollback(conn, to)
	}
	return "", nil
}

// same reports whether two are the same revision. Numbers alone do not tell: another
// run may have given the same one to its own.
func same(a, b *engine.Release) bool {
	return a != nil && b != nil && a.Version == b.Version &&
		a.Info.FirstDeployed.Equal(b.Info.FirstDeployed) && a.Info.LastDeployed.Equal(b.Info.LastDeployed)
}

// rollbackTo is the revision of a history that was deployed before this attempt;
// nil when there is none, also if the attempt was an install.
func (o *operation) rollbackTo(all history) *engine.Release {
	if o.installs {
		return nil
	}
	deployed := all.deployed()
	if deployed != nil && same(deployed, o.records.made) {
		// Helm was done, and the step's own waits failed: Helm has superseded it.
		i := slices.IndexFunc(all, func(r *engine.Release) bool { return same(r, o.deployed) })
		if i < 0 {
			return nil
		}
		return all[i]
	}
	return deployed
}

// until is a context for the cleanup, which the end of the attempt does not end.
func (o *operation) until(end time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(context.WithoutCancel(o.ctx), end,
		&runner.TimeoutError{After: time.Until(end).Round(time.Second), For: "the release to be undone"})
}

func (o *operation) rollback(c *connection, to *engine.Release) (string, error) {
	what := fmt.Sprintf("rolling back to revision %d", to.Version)
	o.reporter.Report(runner.Report{Type: runner.TypeProgress, Message: what})
	err := c.operations().Rollback(engine.Rollback{
		Sending: o.sendingLike(to), Name: o.ReleaseName, Revision: to.Version, Wait: o.waits(),
		MaxHistory: o.Spec.Kept(), DisableHooks: o.Spec.DisableHooks,
	})
	return what, c.settle("Rollback", c.records.made, err)
}

// uninstall removes the release; its record too, unless there are others.
func (o *operation) uninstall(c *connection, others bool) (string, error) {
	const what = "uninstalling the release, which was never deployed,"
	o.reporter.Report(runner.Report{Type: runner.TypeProgress, Message: what[:len(what)-1]})
	err := c.operations().Uninstall(engine.Uninstall{Name: o.ReleaseName, Wait: o.waits(), KeepHistory: others, DisableHooks: o.Spec.DisableHooks})
	if err == nil {
		return what, nil
	}
	left, unread := c.records.Get(engine.Key(o.ReleaseName, o.records.made.Version))
	if unread != nil { // gone, as a rule
		return what, err
	}
	return what, c.settle("Uninstall", left, err)
}

// settle writes down as failed a revision that Helm left in the middle of what it
// failed at: it does not write that of hooks. Every later run would refuse it.
func (c *connection) settle(operation string, r *engine.Release, failure error) error {
	if failure == nil || r == nil || !busy(r.Info.Status) {
		return failure
	}
	r.SetStatus(engine.StatusFailed, fmt.Sprintf("%s %q failed: %s", operation, r.Name, failure))
	if err := c.write(r); err != nil {
		return fmt.Errorf("%w; writing that down failed: %w", failure, err)
	}
	return failure
}
