// Package helm is the helm step: it installs a release, or upgrades it when it
// is there, by the Helm SDK.
//
// It does not use Helm's own waits, which poll every two seconds and cannot be
// cancelled (helm/helm#12086), runs no plugin, post-renderer or dependency
// update, and does not hold requests for webhooks itself: the session's
// transport does, under Helm, which sees slow requests instead of errors.
//
// Helm 3 gets security fixes until February 2027; what depends on it is in
// this package alone.
package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	helmkube "helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kube"
)

const (
	// history is how many revisions of a release are kept, as in Helm's own default.
	history = 10
	// forever stands for Helm's timeouts, which the step's own bound replaces.
	forever = 24 * time.Hour
	// inputsLabel holds a digest of what a revision was made from.
	inputsLabel = "kplan.dev/inputs"
)

func init() {
	// The field manager of the helm command, so that people can go on with it.
	helmkube.ManagedFieldsManager = "helm"
}

// Action installs or upgrades one release.
type Action struct {
	*Chart
	session *kube.Session
}

var _ runner.Action = (*Action)(nil)

// New makes the action that installs a chart, into the cluster's default
// namespace if its step names none. Its values files are read in Run.
func New(c *Chart, session *kube.Session) *Action {
	here := *c
	if c.spec.Namespace == "" {
		here.namespace = session.Cluster.Namespace()
	}
	return &Action{&here, session}
}

// Run installs or upgrades the release, and waits as the step says.
func (a *Action) Run(ctx context.Context, r runner.Reporter) error {
	values, err := a.values()
	if err != nil {
		return runner.Permanent(err)
	}
	r.Report(runner.Report{Type: runner.TypeProgress, Message: "loading chart " + public(a.spec.Chart)})
	ch, err := a.source.load(ctx)
	if err != nil {
		return err
	}
	run, err := a.prepare(ctx, r, ch, values)
	if err != nil {
		return err
	}
	rel, err := run.install()
	if err != nil {
		return run.failed(rel, err)
	}
	r.Report(runner.Report{
		Type: runner.TypeResult, Revision: rel.Version, Unchanged: run.unchanged,
		Message: fmt.Sprintf("release %s/%s, chart %s %s", rel.Namespace, rel.Name, ch.Metadata.Name, ch.Metadata.Version),
	})
	return nil
}

// operation is one attempt at a release.
type operation struct {
	*Action
	ctx      context.Context
	reporter runner.Reporter
	config   *action.Configuration
	client   *client
	chart    *chart.Chart
	values   map[string]any
	inputs   string
	// last is the newest revision before this attempt; nil when there is none.
	last *release.Release
	// unchanged says that there was nothing to send.
	unchanged bool
	// resend says that the newest revision is sent again as it was rendered.
	resend bool
}

// prepare connects Helm to the session, and finds what is there.
func (a *Action) prepare(ctx context.Context, r runner.Reporter, ch *chart.Chart, values map[string]any) (*operation, error) {
	config, client, err := a.connect(ctx, r)
	if err != nil {
		return nil, err
	}
	o := &operation{
		Action: a, ctx: ctx, reporter: r, config: config, client: client,
		chart: ch, values: values, inputs: digest(ch),
	}
	all, err := config.Releases.History(a.release)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, kube.Explain(fmt.Errorf("reading release %s/%s: %w", a.namespace, a.release, cause(ctx, err)), kube.Op{
			Verb: "list", Namespace: a.namespace,
		})
	}
	for _, r := range all {
		if o.last == nil || r.Version > o.last.Version {
			o.last = r
		}
	}
	if o.last != nil && busy(o.last.Info.Status) {
		return nil, pendingError(o.last, all)
	}
	return o, nil
}

// connect makes Helm's configuration over the session, with a client of ours.
func (a *Action) connect(ctx context.Context, r runner.Reporter) (*action.Configuration, *client, error) {
	config := new(action.Configuration)
	quiet := func(string, ...any) {} // Helm's log is for its developers; errors say what people need
	if err := config.Init(a.session.Getter(a.namespace), a.namespace, "secret", quiet); err != nil {
		return nil, nil, fmt.Errorf("setting Helm up: %w", err)
	}
	config.Releases.MaxHistory = history
	config.Releases.Driver = records{config.Releases.Driver, r}
	base, ok := config.KubeClient.(*helmkube.Client)
	if !ok {
		return nil, nil, fmt.Errorf("unexpected Helm client %T", config.KubeClient)
	}
	c := &client{Client: base, ctx: ctx, session: a.session, reporter: r, ignoreHooks: a.spec.Wait == plan.WaitNone}
	config.KubeClient = c
	return config, c, nil
}

// install installs or upgrades, or finds that there is nothing to do.
func (o *operation) install() (*release.Release, error) {
	switch {
	case o.last == nil, o.last.Info.Status == release.StatusUninstalled:
		return o.first()
	case o.last.Info.Status == release.StatusDeployed && o.same():
		return o.again()
	default:
		return o.upgrade()
	}
}

// same tells whether the newest revision was made from the same chart and
// values. When it is deployed it is not sent again: that would make a new
// revision for nothing, and charts which make a certificate on each render
// would break their running webhook with it. When it failed, it is sent again
// as it was rendered then, for the same reason.
func (o *operation) same() bool {
	return o.last.Labels[inputsLabel] == o.inputs &&
		o.last.Chart != nil && o.last.Chart.Metadata != nil &&
		o.last.Chart.Metadata.Version == o.chart.Metadata.Version &&
		sameValues(o.last.Config, o.values)
}

func sameValues(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// again waits for what is there. When objects of the release are gone it sends
// all of them again, as they were rendered.
func (o *operation) again() (*release.Release, error) {
	o.unchanged = true
	resources, err := o.config.KubeClient.Build(manifestOf(o.last), false)
	if err != nil {
		return o.last, fmt.Errorf("reading the release's objects: %w", err)
	}
	gone, err := o.gone(resources)
	if err != nil {
		return o.last, err
	}
	if len(gone) > 0 {
		o.unchanged, o.resend = false, true
		o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: sentAgain(gone)})
		return o.upgrade()
	}
	if !o.waits() {
		return o.last, nil
	}
	return o.last, o.client.Wait(resources, forever)
}

// sentAgain says which objects are gone, and that the release is sent for it.
func sentAgain(gone []string) string {
	const most = 3
	names := strings.Join(gone[:min(len(gone), most)], ", ")
	if more := len(gone) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "gone from the cluster: " + names + "; the release is sent again as it was rendered"
}

func (o *operation) first() (*release.Release, error) {
	i := action.NewInstall(o.config)
	i.ReleaseName, i.Namespace = o.release, o.namespace
	i.CreateNamespace = o.spec.CreateNamespace
	i.SkipCRDs = o.spec.SkipCRDs
	i.Wait, i.DisableHooks = o.waits(), false
	i.Timeout = forever
	i.Labels = map[string]string{inputsLabel: o.inputs}
	i.Replace = o.last != nil // an uninstalled release whose history was kept
	return i.Run(o.chart, o.values)
}

func (o *operation) upgrade() (*release.Release, error) {
	u := action.NewUpgrade(o.config)
	u.Namespace = o.namespace
	u.SkipCRDs = o.spec.SkipCRDs
	u.Wait = o.waits()
	u.Timeout = forever
	u.MaxHistory = history
	u.ResetValues = true // the plan says all of the values
	u.Labels = map[string]string{inputsLabel: o.inputs}
	if o.resend || o.last.Info.Status == release.StatusFailed && o.same() {
		u.PostRenderer = rendered(o.last.Manifest)
	}
	return u.Run(o.release, o.chart, o.values)
}

// waits tells whether the objects are waited for.
func (o *operation) waits() bool { return o.spec.Wait == "" || o.spec.Wait == plan.WaitReady }

// rendered stands for what a chart renders to: the manifest of a revision. It
// runs no program, unlike Helm's other post-renderers.
type rendered string

var _ postrender.PostRenderer = rendered("")

// Run implements postrender.PostRenderer.
func (m rendered) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	return bytes.NewBufferString(string(m)), nil
}
