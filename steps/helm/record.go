package helm

import (
	"bytes"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// connection is Helm's configuration over a session, with parts of ours.
type connection struct {
	*action.Configuration
	client  *client
	records *recorder
}

// recorder is Helm's storage for one operation. It sees the revision that the
// operation makes before Helm carries it out.
type recorder struct {
	driver.Driver
	// complete, when set, changes a new revision before it is written.
	complete func(*release.Release) error
	// made is the revision that the operation wrote, or tried to; nil before.
	made *release.Release
}

var _ driver.Driver = (*recorder)(nil)

// Create implements driver.Creator.
func (d *recorder) Create(key string, r *release.Release) error {
	if d.complete != nil {
		if err := d.complete(r); err != nil {
			return err
		}
	}
	d.made = r
	return d.Driver.Create(key, r)
}

// complete makes of a new revision what is sent again: all of the last one, so
// that its parts fit together.
func (o *operation) complete(r *release.Release) error {
	if !o.resend {
		return nil
	}
	r.Chart, r.Info.Notes, r.Hooks = o.last.Chart, o.last.Info.Notes, nil
	for _, h := range o.last.Hooks {
		anew := *h
		anew.LastRun = release.HookExecution{}
		r.Hooks = append(r.Hooks, &anew)
	}
	return nil
}

// unrendered takes the templates out of a chart that is sent again: what they
// would render to, or fail with, does not matter.
func unrendered(ch *chart.Chart) *chart.Chart {
	ch.Templates = nil
	for _, sub := range ch.Dependencies() {
		unrendered(sub)
	}
	return ch
}

// rendered stands for what a chart renders to: the manifest of a revision. It
// runs no program, unlike Helm's other post-renderers.
type rendered string

var _ postrender.PostRenderer = rendered("")

// Run implements postrender.PostRenderer.
func (m rendered) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	return bytes.NewBufferString(string(m)), nil
}
