package helm

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/kplan-dev/kplan/runner"
)

// connection is Helm's configuration over a session, with parts of ours.
type connection struct {
	*action.Configuration
	client  *client
	records *recorder
}

// recorder is Helm's storage for one operation. It sees the revision that the
// operation makes before Helm carries it out, and waits for what is held before
// Helm writes down that all was done.
type recorder struct {
	driver.Driver
	client *client
	// labels say who makes revisions.
	labels map[string]string
	// complete, when set, changes a new revision before it is written, and says
	// which of its hooks are to run.
	complete func(*release.Release) (run []*release.Hook, err error)
	// made is the revision that the operation wrote, or tried to, and what is being
	// done, for Helm's description; nil and empty before.
	made *release.Release
	what string
	// hooks are all of made's. Helm itself sees only those that it is to run.
	hooks []*release.Hook
	// failure is why a revision was not deployed that Helm took to be.
	failure error
}

var _ driver.Driver = (*recorder)(nil)

// Create implements driver.Creator.
func (d *recorder) Create(key string, r *release.Release) error {
	if d.complete != nil {
		run, err := d.complete(r)
		if err != nil {
			return err
		}
		d.hooks, r.Hooks = r.Hooks, run
	}
	r.Labels = maps.Clone(r.Labels) // a rollback's are those of the revision that it goes back to
	delete(r.Labels, unlockedLabel)
	if len(d.labels) > 0 {
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		maps.Copy(r.Labels, d.labels)
	}
	d.made, d.what = r, whats[r.Info.Status]
	d.client.revision.begin(r)
	if err := d.Driver.Create(key, d.whole(r)); err != nil {
		return err
	}
	// Whatever becomes of the attempt, the revision is there to be looked at.
	d.client.reporter.Report(runner.Report{
		Type: runner.TypeProgress, Revision: r.Version, Message: fmt.Sprintf("recorded as revision %d", r.Version),
		Release: &runner.Release{Namespace: r.Namespace, Name: r.Name},
	})
	return nil
}

// Update implements driver.Updator. Helm says that all was done by superseding the
// revision before, in an upgrade, and then by the status of the one that it made.
// When an object was held in vain the one before stays what it was. (When an
// upgrade fails, Helm writes the one before again as it was.)
func (d *recorder) Update(key string, r *release.Release) error {
	own := r == d.made
	if status := r.Info.Status; d.made != nil && (own && status == release.StatusDeployed || !own && status == release.StatusSuperseded) {
		if d.failure == nil {
			d.failure = d.client.gathered()
		}
		switch {
		case d.failure == nil:
		case !own:
			return nil
		default:
			r.SetStatus(release.StatusFailed, fmt.Sprintf("%s %q failed: %s", d.what, r.Name, d.failure))
		}
	}
	return d.Driver.Update(key, d.whole(r))
}

// whats are how Helm begins the description of what failed, by the status before.
var whats = map[release.Status]string{
	release.StatusPendingInstall: "Release", release.StatusPendingUpgrade: "Upgrade", release.StatusPendingRollback: "Rollback",
}

// whole is a revision with all of its hooks.
func (d *recorder) whole(r *release.Release) *release.Release {
	if r != d.made || d.hooks == nil {
		return r
	}
	out := *r
	out.Hooks = d.hooks
	return &out
}

// complete makes of a new revision what is sent: all of the last one when that is
// sent again, so that its parts fit together.
func (o *operation) complete(r *release.Release) ([]*release.Hook, error) {
	if o.resend {
		r.Chart, r.Info.Notes, r.Hooks = o.last.Chart, o.last.Info.Notes, nil
		for _, h := range o.last.Hooks {
			anew := *h
			anew.LastRun = release.HookExecution{}
			r.Hooks = append(r.Hooks, &anew)
		}
	}
	return o.toRun(r.Hooks)
}

// unrendered takes the templates out of a chart that is sent again: what they
// would render to, or fail with, does not matter.
func unrendered(ch *helmchart.Chart) {
	ch.Templates = nil
	for _, sub := range ch.Dependencies() {
		unrendered(sub)
	}
}

// rendered stands for what a chart renders to: the manifest of a revision. It
// runs no program, unlike Helm's other post-renderers.
type rendered string

var _ postrender.PostRenderer = rendered("")

// Run implements postrender.PostRenderer.
func (m rendered) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	return bytes.NewBufferString(string(m)), nil
}

func manifestOf(r *release.Release) io.Reader { return strings.NewReader(r.Manifest) }

func hookManifest(h *release.Hook) io.Reader { return strings.NewReader(h.Manifest) }
