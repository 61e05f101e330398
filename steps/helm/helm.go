// Package helm is the helm step: it installs a release, or upgrades it when it
// is there, by a Helm SDK.
//
// It does not use Helm's own waits, which poll every two seconds and cannot be
// cancelled (helm/helm#12086), runs no plugin, post-renderer or dependency
// update, and does not hold requests for webhooks itself: the session's
// transport does, under Helm, which sees slow requests instead of errors.
//
// Which version of Helm that is does not matter here: see steps/internal/engine.
package helm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Labels of revisions.
const (
	// inputsLabel holds a digest of what a revision was made from.
	inputsLabel = "kplan.dev/inputs"
	// planLabel and runLabel say which run of which plan made it.
	planLabel = removal.PlanLabel
	runLabel  = "kplan.dev/run"
	// unlockedLabel says that the run kept no lock while it did.
	unlockedLabel = "kplan.dev/unlocked"
)

// Action installs or upgrades one release.
type Action struct {
	*charts.Chart
	options Options
	// recorded says that an attempt has made a revision.
	recorded atomic.Bool
	// corrected counts the fields that attempts have put right.
	corrected atomic.Int64
	// changedCRDs counts the CustomResourceDefinitions that attempts have changed.
	changedCRDs atomic.Int64
	// toldRandom says that it was told what the chart renders by chance.
	toldRandom atomic.Bool
	// drifted are they, or those that were left as they are; attempts come one at a
	// time.
	drifted []string
}

// Options say what is done otherwise than the step says.
type Options struct {
	// ForceUpgrade renders and sends the chart also when it and its values are
	// those of the newest revision. Once that is recorded, attempts that follow do
	// as ever.
	ForceUpgrade bool
	// Plan and Run are the plan's name and the run's ID, which revisions are labelled
	// with.
	Plan, Run string
	// Locked reports whether no other run of the plan works on the cluster; nil means
	// that nobody knows.
	Locked func() bool
	// TakeOver goes on with a revision that another left unfinished, whoever it was.
	TakeOver bool
	// Hide replaces what is sensitive in a text; nil means that nothing is.
	Hide func(string) string
}

// locked reports whether no other run of the plan works on the cluster.
func (o Options) locked() bool { return o.Locked != nil && o.Locked() }

// labels are those that say who made a revision.
func (o Options) labels() map[string]string {
	if o.Plan == "" || o.Run == "" {
		return nil
	}
	labels := map[string]string{planLabel: o.Plan, runLabel: o.Run}
	if !o.locked() {
		labels[unlockedLabel] = "true"
	}
	return labels
}

// New makes the action that installs a chart, into a cluster's default namespace if
// its step names none. Its values files are read in Run.
func New(c *charts.Chart, namespace string, o Options) *Action {
	here := *c
	here.Namespace = cmp.Or(c.Spec.Namespace, namespace)
	return &Action{Chart: &here, options: o}
}

// Run installs or upgrades the release, and waits as the step says.
func (a *Action) Run(ctx context.Context, s *cluster.Session, r runner.Reporter) error {
	values, err := a.Values(ctx)
	if err != nil {
		return err
	}
	r.Report(runner.Report{Type: runner.TypeProgress, Message: "loading chart " + source.Public(a.Spec.Chart)})
	ch, err := a.Source.Load(fetching(ctx, r, source.Public(a.Spec.Chart)))
	if err != nil {
		return err
	}
	run, err := a.prepare(ctx, s, r, ch, values)
	if err != nil {
		return err
	}
	rel, err := run.install()
	run.client.order.Close()
	if err == nil {
		err = run.records.failure
	}
	if err == nil {
		err = run.client.settled()
	}
	if run.records.made != nil {
		a.recorded.Store(true)
	}
	if err != nil {
		return run.failed(err)
	}
	r.Report(runner.Report{
		Type: runner.TypeResult, Revision: rel.Version, Unchanged: !a.recorded.Load() && a.corrected.Load() == 0 && a.changedCRDs.Load() == 0,
		Release: &runner.Release{Namespace: rel.Namespace, Name: rel.Name}, Objects: run.client.applied, // nothing sends any more
		Message: fmt.Sprintf("release %s/%s, chart %s %s%s", rel.Namespace, rel.Name, ch.Metadata.Name, ch.Metadata.Version, a.corrections()),
	})
	return nil
}

// inputsOf is a digest of a chart, and of the capabilities that the step says.
func (a *Action) inputsOf(ch *engine.Chart) string {
	digest := charts.Digest(ch)
	if a.Spec.KubeVersion == "" && len(a.Spec.APIVersions) == 0 {
		return digest
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", digest, a.Spec.KubeVersion, slices.Sorted(slices.Values(a.Spec.APIVersions))))
	return hex.EncodeToString(sum[:])[:len(digest)]
}

// operation is one attempt at a release.
type operation struct {
	*Action
	*connection
	ctx      context.Context
	reporter runner.Reporter
	chart    *engine.Chart
	values   map[string]any
	inputs   string
	// last is the newest revision before this attempt; nil when there is none.
	last *engine.Release
	// replaces are the failed installs that this one goes on with.
	replaces failedInstalls
	// installs says that the attempt is an install, and no upgrade.
	installs bool
	// deployed is the newest deployed revision before this attempt; nil without.
	deployed *engine.Release
	// resend says that the newest revision is sent again as it was rendered.
	resend bool
	// all is the history before this attempt.
	all history
}

// prepare connects Helm to the session, and finds what is there.
func (a *Action) prepare(ctx context.Context, s *cluster.Session, r runner.Reporter, ch *engine.Chart, values map[string]any) (*operation, error) {
	conn, err := a.connect(ctx, s, r)
	if err != nil {
		return nil, err
	}
	o := &operation{
		Action: a, connection: conn, ctx: ctx, reporter: r,
		chart: ch, values: values, inputs: a.inputsOf(ch),
	}
	conn.records.complete = o.complete
	all, err := a.history(ctx, conn)
	if err != nil {
		return nil, err
	}
	if all, err = a.takeUp(ctx, conn, r, all); err != nil {
		return nil, err
	}
	o.all, o.last, o.deployed = all, all.last(), all.deployed()
	o.replaces = failedInstalls{
		release: a.ReleaseName, namespace: a.Namespace, revisions: all.failedInstalls(),
		client: conn.client, reporter: r,
	}
	return o, nil
}

// connect opens a Helm engine over a session.
func (a *Action) connect(ctx context.Context, s *cluster.Session, r runner.Reporter) (*connection, error) {
	base, err := a.Engine().Open(s.Getter(a.Namespace), s.Clientset, a.Namespace)
	if err != nil {
		return nil, fmt.Errorf("setting Helm up: %w", err)
	}
	rest, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		return nil, fmt.Errorf("setting Helm up: %w", err)
	}
	ahead, err := newLookahead(s, rest)
	if err != nil {
		return nil, err
	}
	c := &client{Client: base, namespace: a.Namespace, ctx: ctx, reporter: r, plan: a.options.Plan, hooks: hookRuns{reporter: r}, sender: sender{
		session: s, ahead: ahead, kinds: a.Engine().InstallOrder(), order: sequence.New(ctx), ignoreHooks: a.Spec.Wait == plan.WaitNone,
	}}
	c.revision.ignoreHooks = a.Spec.DisableHooks
	c.matcher.Cluster.Labels = s.Cluster.Labels(ctx)
	records := &recorder{Records: base.Records(), client: c, labels: a.options.labels()}
	c.records = records
	return &connection{base, c, records}, nil
}

// again waits for what is there, after it has put right what others changed. When
// objects of the release are gone it sends all of them again, as they were rendered.
func (o *operation) again() (*engine.Release, error) {
	resources, err := o.client.Build(manifestOf(o.last), false)
	if err != nil {
		return o.last, fmt.Errorf("reading the release's objects: %w", err)
	}
	read, correct := reader{o.client.session}, &correction{
		Action: o.Action, client: o.client, reporter: o.reporter, serverSide: o.last.ApplyMethod == engine.ServerSide,
	}
	d, err := read.drift(o.ctx, o.last, resources)
	switch {
	case err != nil:
		return o.last, err
	case o.Spec.Drift == plan.ReportDrift:
		read.confirm(o.ctx, d)
		resources = correct.missed(d, resources)
	case len(d.Gone) > 0:
		o.resend = true
		o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: sentAgain(d.Gone)})
		return o.upgrade()
	}
	if o.Spec.Drift != plan.IgnoreDrift {
		if err := correct.right(d); err != nil {
			return o.last, err
		}
	}
	for _, info := range resources {
		o.client.keep(info, false)
	}
	if !o.waits() {
		return o.last, nil
	}
	// No hook is run that could make custom resources ready: all are waited for at once.
	return o.last, o.client.ready(resources, targets(resources, func(kind schema.GroupVersionKind) bool {
		return isAwaited(kind) || isCustom(kind) || o.Spec.WaitForJobs && kind.GroupKind() == job
	}))
}

// corrections says what drift there was, and what became of it.
func (a *Action) corrections() string {
	switch n := a.corrected.Load(); {
	case len(a.drifted) == 0:
		return ""
	case n == 0:
		return ", drift left as it is: " + some(a.drifted)
	default:
		return ", " + fields(int(n)) + " corrected: " + some(a.drifted)
	}
}

// sentAgain says which objects are gone, and that the release is sent for it.
func sentAgain(gone []string) string {
	return "gone from the cluster: " + some(gone) + "; the release is sent again as it was rendered"
}

// some are the first of several names.
func some(names []string) string {
	const most = 3
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// waits reports whether the objects are waited for.
func (a *Action) waits() bool { return a.Spec.Wait == "" || a.Spec.Wait == plan.WaitReady }
