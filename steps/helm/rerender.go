package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm/chance"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// renderedLabel of a revision that was sent again says as which one it was rendered.
const renderedLabel = "kplan.dev/rendered"

// rendersTheSame reports whether the chart renders on this cluster to what the deployed
// revision has, whose inputs are the step's: what it asks of the cluster may be answered
// otherwise by now. What it renders to by chance is another on each render, and does not
// count. A chart that cannot be rendered any more is left as it is: an upgrade would fail.
func (o *operation) rendersTheSame() (bool, error) {
	first, err := o.rerendered()
	if err != nil {
		return false, err
	}
	has := o.renderingOf(o.last)
	if first == nil || first.text == has.text {
		return true, nil
	}
	before, errBefore := has.objects()
	now, errNow := first.objects()
	if errBefore != nil || errNow != nil {
		return false, nil // the API server says what is wrong
	}
	if len(chance.Differences(before, now, now)) == 0 {
		return true, nil
	}
	o.awaitClock()
	second, err := o.rerendered()
	if err != nil || second == nil {
		return false, err
	}
	again, err := second.objects()
	if err != nil {
		return false, nil
	}
	if random := chance.Random(now, again); len(random) > 0 {
		o.tellRandom(random)
	}
	changed := chance.Differences(before, now, again)
	if len(changed) > 0 {
		o.reporter.Report(runner.Report{
			Type: runner.TypeLog, Message: fmt.Sprintf("the chart renders otherwise on this cluster than as revision %d: %s", o.last.Version, some(changed)),
		})
	}
	return len(changed) == 0, nil
}

// tellRandom names the objects that are rendered by chance, once a step.
func (o *operation) tellRandom(names []string) {
	if o.toldRandom.Swap(true) {
		return
	}
	o.reporter.Report(runner.Report{
		Type: runner.TypeLog, Message: "rendered otherwise each time, which does not count as a change: " + some(names),
	})
}

// clock is how a template asks for the time.
var clock = regexp.MustCompile(`\bnow\b`)

// awaitClock waits for the next second if the chart asks for the time: what it makes of
// that is by chance, too, and most charts make seconds of it.
func (o *operation) awaitClock() {
	if !asksFor(o.chart, clock) {
		return
	}
	select {
	case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))):
	case <-o.ctx.Done():
	}
}

func asksFor(ch *engine.Chart, what *regexp.Regexp) bool {
	return slices.ContainsFunc(ch.Templates, func(f *engine.File) bool { return what.Match(f.Data) }) ||
		slices.ContainsFunc(ch.Dependencies(), func(sub *engine.Chart) bool { return asksFor(sub, what) })
}

// rendering is what a chart renders to, but for its notes and for hooks that nobody runs
// any more: those of an install.
type rendering struct {
	text  string
	place func([]*unstructured.Unstructured)
}

func (o *operation) renderingOf(r *engine.Release) *rendering {
	var text strings.Builder
	text.WriteString(r.Manifest)
	for _, h := range r.Hooks {
		if slices.ContainsFunc(h.Events, func(e engine.HookEvent) bool { return e != engine.HookPreInstall && e != engine.HookPostInstall }) {
			fmt.Fprintf(&text, "\n---\n%s", h.Manifest)
		}
	}
	return &rendering{text.String(), o.Place}
}

func (r *rendering) objects() ([]*unstructured.Unstructured, error) {
	objects, err := charts.Decode(r.text)
	r.place(objects)
	return objects, err
}

// rerendered renders the chart as for the deployed revision: as an install if that is how
// it was rendered, else as an upgrade with its number. It is nil when that fails, which
// is told.
func (o *operation) rerendered() (*rendering, error) {
	ch, err := o.Source.Load(o.ctx) // Helm changes the one that it renders
	if err != nil {
		return nil, err
	}
	options, err := o.engineOptions()
	if err != nil {
		return nil, err
	}
	before := *o.last
	as := o.all.renderedAs(o.last)
	before.Version = as - 1
	helm := o.Over(blind{}, imagined{&before})
	var rel *engine.Release
	if as == 1 {
		rel, err = helm.Install(ch, o.last.Config, engine.Install{Name: o.ReleaseName, Namespace: o.Namespace, DryRun: true, Options: options})
	} else {
		rel, err = helm.Upgrade(ch, o.last.Config, engine.Upgrade{
			Name: o.ReleaseName, Namespace: o.Namespace, DryRun: true, Reuse: o.reuse(), Options: options,
		})
	}
	if o.ctx.Err() != nil {
		return nil, context.Cause(o.ctx)
	}
	if err != nil {
		o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "what the chart renders to now is not known: " + charts.WithoutValues(err.Error())})
		return nil, nil
	}
	return o.renderingOf(rel), nil
}

var rollback = regexp.MustCompile(`^Rollback to (\d+)$`)

// renderedAs is the number that templates saw when a revision was rendered, 1 for
// installs: Helm renders each as the first one, also when others failed before.
func (h history) renderedAs(r *engine.Release) int {
	if n, err := strconv.Atoi(r.Labels[renderedLabel]); err == nil && n > 0 {
		return n
	}
	if to := rollback.FindStringSubmatch(r.Info.Description); to != nil {
		for _, before := range h {
			if strconv.Itoa(before.Version) == to[1] && before.Version < r.Version {
				return h.renderedAs(before)
			}
		}
	}
	if r.Info.FirstDeployed.Equal(r.Info.LastDeployed) { // upgrades and rollbacks keep the first
		return 1
	}
	return r.Version
}

// blind is a host that knows no objects, so that rendering asks for none: it is for dry
// runs only.
type blind struct{}

var _ engine.Host = blind{}

// Build implements engine.Client.
func (blind) Build(io.Reader, bool) (engine.ResourceList, error) { return nil, nil }

// Create implements engine.Client.
func (blind) Create(engine.ResourceList, engine.Sending) (*engine.Result, error) {
	return &engine.Result{}, nil
}

// Update implements engine.Client.
func (blind) Update(engine.ResourceList, engine.ResourceList, engine.Sending) (*engine.Result, error) {
	return &engine.Result{}, nil
}

// Delete implements engine.Client.
func (blind) Delete(engine.ResourceList, metav1.DeletionPropagation) (*engine.Result, []error) {
	return &engine.Result{}, nil
}

// Wait implements engine.Host.
func (blind) Wait(engine.ResourceList, bool) error { return nil }

// WatchUntilReady implements engine.Host.
func (blind) WatchUntilReady(engine.ResourceList) error { return nil }

// WaitForDelete implements engine.Host.
func (blind) WaitForDelete(engine.ResourceList) error { return nil }

var errImagined = errors.New("a dry run records nothing")

// imagined are records with one revision, which nobody writes.
type imagined struct{ only *engine.Release }

var _ engine.Records = imagined{}

// Create implements engine.Records.
func (imagined) Create(string, *engine.Release) error { return errImagined }

// Update implements engine.Records.
func (imagined) Update(string, *engine.Release) error { return errImagined }

// Delete implements engine.Records.
func (imagined) Delete(string) (*engine.Release, error) { return nil, errImagined }

// Get implements engine.Records.
func (i imagined) Get(string) (*engine.Release, error) { return i.only, nil }

// Query implements engine.Records.
func (i imagined) Query(map[string]string) ([]*engine.Release, error) {
	return []*engine.Release{i.only}, nil
}
