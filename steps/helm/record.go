package helm

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// connection is a Helm engine over a session, with parts of ours.
type connection struct {
	engine.Session
	client  *client
	records *recorder
}

// operations are the engine's with these parts.
func (c *connection) operations() engine.Operations { return c.Over(c.client, c.records) }

// write brings the record of a revision up to date.
func (c *connection) write(r *engine.Release) error {
	return c.records.Update(engine.Key(r.Name, r.Version), r)
}

// recorder is Helm's storage for one operation. It sees the revision that the
// operation makes before Helm carries it out, and waits for what is held before
// Helm writes down that all was done.
type recorder struct {
	engine.Records
	client *client
	// labels say who makes revisions.
	labels map[string]string
	// complete, when set, changes a new revision before it is written, and says
	// which of its hooks are to run.
	complete func(*engine.Release) (*todo, error)
	// finish, when set, is what is left to do before a revision is written down as
	// deployed.
	finish func(*engine.Release)
	// replaces says that the operation is an install over another revision, and
	// replaced is that revision as Helm supersedes it: before there is a new one. It is
	// written afterwards, so that there is always one to go on with.
	replaces bool
	replaced func() error
	// made is the revision that the operation wrote, or tried to, and what is being
	// done, for Helm's description; nil and empty before.
	made *engine.Release
	what string
	key  string
	// hooks are all of made's. Helm itself sees only those of todo.
	hooks []*engine.Hook
	todo  *todo
	// failure is why a revision was not deployed that Helm took to be.
	failure error
}

var _ engine.Records = (*recorder)(nil)

// Create implements engine.Records.
func (d *recorder) Create(key string, r *engine.Release) error {
	if d.complete != nil {
		todo, err := d.complete(r)
		if err != nil {
			return err
		}
		d.hooks, d.todo, r.Hooks = r.Hooks, todo, todo.first
	}
	r.Labels = maps.Clone(r.Labels) // they may be those of the revision before, or that a rollback goes back to
	for _, own := range []string{unlockedLabel, interruptedLabel, phaseLabel} {
		delete(r.Labels, own)
	}
	if len(d.labels) > 0 {
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		maps.Copy(r.Labels, d.labels)
	}
	if err := tooLarge(d.whole(r)); err != nil {
		return err
	}
	d.made, d.key, d.what = r, key, whats[r.Info.Status]
	d.client.revision.begin(r)
	if err := d.Records.Create(key, d.whole(r)); err != nil {
		return err
	}
	if d.replaced != nil {
		_ = d.replaced() // else it stays uninstalled, which harms nobody
	}
	// Whatever becomes of the attempt, the revision is there to be looked at.
	d.client.reporter.Report(runner.Report{
		Type: runner.TypeProgress, Revision: r.Version, Message: fmt.Sprintf("recorded as revision %d", r.Version),
		Release: &runner.Release{Namespace: r.Namespace, Name: r.Name},
	})
	return nil
}

// Update implements engine.Records. Helm says that all was done by superseding the
// revision before, in an upgrade, and then by the status of the one that it made.
// When an object was held in vain the one before stays what it was. (When an
// upgrade fails, Helm writes the one before again as it was.)
func (d *recorder) Update(key string, r *engine.Release) error {
	own := r == d.made
	if d.replaces && d.made == nil && r.Info.Status == engine.StatusSuperseded {
		d.replaced = func() error { return d.Records.Update(key, r) }
		return nil
	}
	if status := r.Info.Status; d.made != nil && (own && status == engine.StatusDeployed || !own && status == engine.StatusSuperseded) {
		if d.failure == nil {
			d.failure = d.client.gathered()
		}
		switch {
		case d.failure == nil && own:
			d.finished(r)
		case d.failure == nil:
		case !own:
			return nil
		default:
			r.SetStatus(engine.StatusFailed, fmt.Sprintf("%s %q failed: %s", d.what, r.Name, d.failure))
		}
	}
	if stop := context.Cause(d.client.ctx); own && r.Info.Status == engine.StatusFailed && stop != nil && !isTimeout(stop) {
		r.Labels[interruptedLabel] = "true"
	}
	return d.Records.Update(key, d.whole(r))
}

// finished does what is left to do when all of a revision is there.
func (d *recorder) finished(r *engine.Release) {
	delete(r.Labels, phaseLabel)
	if d.todo != nil {
		d.clear(d.todo.doneThen)
	}
	if d.finish != nil {
		d.finish(r)
	}
}

// phaseLabel of a revision says that the hooks have ended which go before its
// objects.
const phaseLabel = "kplan.dev/sent"

// sends takes note that Helm begins to send the revision's objects: the hooks that
// go before them have ended.
func (d *recorder) sends() {
	if d.made == nil || d.made.Labels[phaseLabel] != "" || !busy(d.made.Info.Status) {
		return
	}
	if d.todo != nil {
		d.clear(d.todo.doneFirst)
		if d.todo.then != nil {
			d.made.Hooks = d.todo.then
		}
	}
	goesBefore := eventsOf(d.made.Info.Status)[0]
	if !slices.ContainsFunc(d.whole(d.made).Hooks, func(h *engine.Hook) bool { return slices.Contains(h.Events, goesBefore) }) {
		return // there is nothing to know
	}
	d.made.Labels[phaseLabel] = "true"
	_ = d.Records.Update(d.key, d.whole(d.made)) // as Helm takes it: the hooks may run again after a crash
}

// ran takes note that the hook has ended well which Helm runs now. Helm writes that
// down only when the next one starts.
func (d *recorder) ran() {
	if d.made == nil {
		return
	}
	for _, h := range d.made.Hooks {
		if h.LastRun.Phase == engine.HookPhaseUnknown && h.LastRun.CompletedAt.IsZero() {
			h.LastRun.Phase, h.LastRun.CompletedAt = engine.HookPhaseSucceeded, time.Now()
			_ = d.Records.Update(d.key, d.whole(d.made)) // see sends
			return
		}
	}
}

// todo is which hooks of a revision are to run.
type todo struct {
	// first is what Helm runs before the revision's objects are sent; then is what it
	// runs after that, nil for the same.
	first, then []*engine.Hook
	// doneFirst and doneThen ran before in these two, and are still to be removed if
	// their policy says so.
	doneFirst, doneThen []*engine.Hook
}

// leave takes note of a hook that ran already.
func (t *todo) leave(h *engine.Hook, before bool) {
	if before {
		t.doneFirst = append(t.doneFirst, h)
	} else {
		t.doneThen = append(t.doneThen, h)
	}
}

// whats are how Helm begins the description of what failed, by the status before.
var whats = map[engine.Status]string{
	engine.StatusPendingInstall: "Release", engine.StatusPendingUpgrade: "Upgrade", engine.StatusPendingRollback: "Rollback",
}

// whole is a revision with all of its hooks.
func (d *recorder) whole(r *engine.Release) *engine.Release {
	if r != d.made || d.hooks == nil {
		return r
	}
	out := *r
	out.Hooks = d.hooks
	return &out
}

// complete makes of a new revision what is sent: all of the last one when that is
// sent again, so that its parts fit together.
func (o *operation) complete(r *engine.Release) (*todo, error) {
	o.mark(r)
	if o.resend {
		// Helm 4 makes another text of the same objects.
		r.Chart, r.Info.Notes, r.Manifest, r.Hooks = o.last.Chart, o.last.Info.Notes, o.last.Manifest, nil
		for _, h := range o.last.Hooks {
			anew := *h
			anew.LastRun = engine.HookExecution{}
			r.Hooks = append(r.Hooks, &anew)
		}
	}
	if over := (takeover{last: o.last, client: o.client, reporter: o.reporter}); o.resend && over.resumes(r) {
		return over.unfinished(r)
	}
	run, err := o.replaces.toRun(r.Hooks)
	return &todo{first: run}, err
}

// unrendered takes the templates out of a chart that is sent again: what they
// would render to, or fail with, does not matter.
func unrendered(ch *engine.Chart) {
	ch.Templates = nil
	for _, sub := range ch.Dependencies() {
		unrendered(sub)
	}
}

func manifestOf(r *engine.Release) io.Reader { return strings.NewReader(r.Manifest) }

func hookManifest(h *engine.Hook) io.Reader { return strings.NewReader(h.Manifest) }
