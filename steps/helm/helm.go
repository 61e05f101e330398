// Package helm is the helm step: it installs a release, or upgrades it when it
// is there, by the Helm SDK.
//
// It does not use Helm's own waits, which poll every two seconds and cannot be
// cancelled (helm/helm#12086), runs no plugin, post-renderer or dependency
// update, and does not hold requests for webhooks itself: the session's
// transport does, under Helm, which sees slow requests instead of errors.
//
// Helm 3 gets security fixes until February 2027; what depends on it is in
// this package and steps/internal/charts alone.
package helm

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	helmkube "helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

const (
	// kept is how many revisions of a release are kept, as in Helm's own default.
	kept = 10
	// forever stands for Helm's timeouts, which the step's own bound replaces.
	forever = 24 * time.Hour
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

func init() {
	helmkube.ManagedFieldsManager = manager
}

// Action installs or upgrades one release.
type Action struct {
	*charts.Chart
	options Options
	// recorded says that an attempt has made a revision.
	recorded atomic.Bool
	// corrected counts the fields that attempts have put right.
	corrected atomic.Int64
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
	values, err := a.Values()
	if err != nil {
		return runner.Permanent(err)
	}
	r.Report(runner.Report{Type: runner.TypeProgress, Message: "loading chart " + charts.Public(a.Spec.Chart)})
	ch, err := a.Source.Load(ctx)
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
		Type: runner.TypeResult, Revision: rel.Version, Unchanged: !a.recorded.Load() && a.corrected.Load() == 0,
		Release: &runner.Release{Namespace: rel.Namespace, Name: rel.Name}, Objects: run.client.applied, // nothing sends any more
		Message: fmt.Sprintf("release %s/%s, chart %s %s%s", rel.Namespace, rel.Name, ch.Metadata.Name, ch.Metadata.Version, a.corrections()),
	})
	return nil
}

// operation is one attempt at a release.
type operation struct {
	*Action
	*connection
	ctx      context.Context
	reporter runner.Reporter
	chart    *helmchart.Chart
	values   map[string]any
	inputs   string
	// last is the newest revision before this attempt; nil when there is none.
	last *release.Release
	// replaces are the failed installs that this one goes on with.
	replaces failedInstalls
	// installs says that the attempt is an install, and no upgrade.
	installs bool
	// deployed is the newest deployed revision before this attempt; nil without.
	deployed *release.Release
	// resend says that the newest revision is sent again as it was rendered.
	resend bool
}

// prepare connects Helm to the session, and finds what is there.
func (a *Action) prepare(ctx context.Context, s *cluster.Session, r runner.Reporter, ch *helmchart.Chart, values map[string]any) (*operation, error) {
	conn, err := a.connect(ctx, s, r)
	if err != nil {
		return nil, err
	}
	o := &operation{
		Action: a, connection: conn, ctx: ctx, reporter: r,
		chart: ch, values: values, inputs: charts.Digest(ch),
	}
	conn.records.complete = o.complete
	all, err := a.history(ctx, conn)
	if err != nil {
		return nil, err
	}
	if all, err = a.takeUp(ctx, conn, r, all); err != nil {
		return nil, err
	}
	o.last, o.deployed = all.last(), all.deployed()
	o.replaces = failedInstalls{
		release: a.ReleaseName, namespace: a.Namespace, revisions: all.failedInstalls(),
		client: conn.client, reporter: r,
	}
	return o, nil
}

// connect makes Helm's configuration over a session.
func (a *Action) connect(ctx context.Context, s *cluster.Session, r runner.Reporter) (*connection, error) {
	config := new(action.Configuration)
	quiet := func(string, ...any) {} // Helm's log is for its developers; errors say what people need
	if err := config.Init(s.Getter(a.Namespace), a.Namespace, "secret", quiet); err != nil {
		return nil, fmt.Errorf("setting Helm up: %w", err)
	}
	config.Releases.MaxHistory = kept
	base, ok := config.KubeClient.(*helmkube.Client)
	if !ok {
		return nil, fmt.Errorf("unexpected Helm client %T", config.KubeClient)
	}
	rest, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		return nil, fmt.Errorf("setting Helm up: %w", err)
	}
	c := &client{Client: base, ctx: ctx, reporter: r, plan: a.options.Plan, sender: sender{
		session: s, rest: rest, order: sequence.New(ctx), ignoreHooks: a.Spec.Wait == plan.WaitNone,
	}}
	c.matcher.Cluster.Labels = s.Cluster.Labels(ctx)
	config.KubeClient = c
	records := &recorder{Driver: config.Releases.Driver, client: c, labels: a.options.labels()}
	c.records = records
	config.Releases.Driver = records
	return &connection{config, c, records}, nil
}

// install installs or upgrades, or finds that there is nothing to do.
func (o *operation) install() (*release.Release, error) {
	unchanged := o.last != nil && o.sameInputs()
	if unchanged && o.options.ForceUpgrade && !o.recorded.Load() {
		unchanged = false
		o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "the chart and its values did not change; they are rendered and sent by force"})
	}
	o.resend = unchanged && o.last.Info.Status == release.StatusFailed
	switch {
	case o.last == nil, o.last.Info.Status == release.StatusUninstalled, len(o.replaces.revisions) > 0:
		return o.first()
	case unchanged && o.last.Info.Status == release.StatusDeployed:
		return o.again()
	default:
		return o.upgrade()
	}
}

// sameInputs reports whether the newest revision was made from the same chart and
// values. When it is deployed it is not sent again: that would make a new
// revision for nothing, and charts which make a certificate on each render
// would break their running webhook with it. When it failed, it is sent again
// as it was rendered then, for the same reason.
func (o *operation) sameInputs() bool {
	return o.last.Labels[inputsLabel] == o.inputs &&
		o.last.Chart != nil && o.last.Chart.Metadata != nil &&
		o.last.Chart.Metadata.Version == o.chart.Metadata.Version &&
		sameValues(o.last.Config, o.values)
}

func sameValues(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := charts.Canonical(a)
	y, errY := charts.Canonical(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// again waits for what is there, after it has put right what others changed. When
// objects of the release are gone it sends all of them again, as they were rendered.
func (o *operation) again() (*release.Release, error) {
	resources, err := o.client.Build(manifestOf(o.last), false)
	if err != nil {
		return o.last, fmt.Errorf("reading the release's objects: %w", err)
	}
	read, correct := reader{o.client.session}, &correction{Action: o.Action, client: o.client, reporter: o.reporter}
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
	return o.last, o.client.ready(resources, targets(resources, func(kind schema.GroupVersionKind) bool { return isAwaited(kind) || isCustom(kind) }))
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

func (o *operation) first() (*release.Release, error) {
	o.installs = true
	i := action.NewInstall(o.Configuration)
	i.ReleaseName, i.Namespace = o.ReleaseName, o.Namespace
	i.CreateNamespace = o.Spec.CreateNamespace
	i.SkipCRDs = o.Spec.SkipCRDs
	i.Wait, i.DisableHooks = o.waits(), false
	i.Timeout = forever
	i.Labels = map[string]string{inputsLabel: o.inputs}
	i.Replace = o.last != nil // one that failed, or was uninstalled and its history kept
	if o.resend {
		i.PostRenderer = rendered(o.last.Manifest)
		unrendered(o.chart)
	}
	o.records.replaces = i.Replace
	if len(o.replaces.revisions) > 0 {
		o.client.before, o.records.finish = o.replaces.before, o.replaces.prune
	}
	return i.Run(o.chart, o.values)
}

func (o *operation) upgrade() (*release.Release, error) {
	u := action.NewUpgrade(o.Configuration)
	u.Namespace = o.Namespace
	u.SkipCRDs = o.Spec.SkipCRDs
	u.Wait = o.waits()
	u.Timeout = forever
	u.MaxHistory = kept
	u.ResetValues = true // the plan says all of the values
	u.Labels = map[string]string{inputsLabel: o.inputs}
	if o.resend {
		u.PostRenderer = rendered(o.last.Manifest)
		unrendered(o.chart)
	}
	return u.Run(o.ReleaseName, o.chart, o.values)
}

// waits reports whether the objects are waited for.
func (a *Action) waits() bool { return a.Spec.Wait == "" || a.Spec.Wait == plan.WaitReady }
