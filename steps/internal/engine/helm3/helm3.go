// Package helm3 is the engine of Helm 3.
//
// It keeps two sides of each release, Helm 3's and the engine's, and exchanges what
// changed where Helm calls the step. Helm 3 gets security fixes until February 2027:
// this package can then go as it is.
package helm3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	helmkube "helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	helmstorage "helm.sh/helm/v3/pkg/storage"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/validation"

	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/engine/helm4"
)

// forever stands for Helm's timeouts, which the step's own bound replaces.
const forever = 24 * time.Hour

func init() { helmkube.ManagedFieldsManager = engine.Manager }

// quiet drops Helm's log, which is for its developers; errors say what people need.
func quiet(string, ...any) {}

// Engine is Helm 3.
type Engine struct{}

var _ engine.Engine = Engine{}

// ServerSide implements engine.Engine.
func (Engine) ServerSide() bool { return false }

// Load implements engine.Engine.
func (Engine) Load(path string) (*engine.Chart, error) {
	ch, err := loader.Load(path)
	if err != nil {
		return nil, err
	}
	return chartOf(ch)
}

// LoadArchive implements engine.Engine.
func (Engine) LoadArchive(r io.Reader) (*engine.Chart, error) {
	ch, err := loader.LoadArchive(r)
	if err != nil {
		return nil, err
	}
	return chartOf(ch)
}

// CheckDependencies implements engine.Engine.
func (Engine) CheckDependencies(own *engine.Chart) error {
	ch, err := chartFrom(own)
	if err != nil {
		return err
	}
	return action.CheckDependencies(ch, ch.Metadata.Dependencies)
}

// InstallOrder implements engine.Engine.
func (Engine) InstallOrder() []string { return releaseutil.InstallOrder }

// Render implements engine.Engine.
func (Engine) Render(ctx context.Context, own *engine.Chart, values map[string]any, how engine.Render) (*engine.Release, error) {
	ch, err := chartFrom(own)
	if err != nil {
		return nil, err
	}
	i := action.NewInstall(&action.Configuration{Log: quiet})
	i.ReleaseName, i.Namespace = how.Name, how.Namespace
	i.DryRun, i.ClientOnly, i.Replace = true, true, true
	i.IncludeCRDs = how.IncludeCRDs
	i.APIVersions = how.APIVersions
	if i.KubeVersion, err = chartutil.ParseKubeVersion(how.KubeVersion); err != nil {
		return nil, fmt.Errorf("version of the cluster: %w", err)
	}
	rel, err := i.RunWithContext(ctx, ch, values)
	if err != nil {
		return nil, err
	}
	return newBooks().pull(rel)
}

// Open implements engine.Engine.
func (Engine) Open(getter genericclioptions.RESTClientGetter, set kubernetes.Interface, namespace string) (engine.Session, error) {
	base := helmkube.New(getter)
	base.Log, base.Namespace = quiet, namespace
	base.Factory = factory{base.Factory, engine.Quick(getter, base.Factory.Validator)}
	return &session{client{base, helm4.NewClient(getter, namespace)}, getter, newRecords(set.CoreV1().Secrets(namespace))}, nil
}

// factory is Helm's own with another check of fields.
type factory struct {
	helmkube.Factory
	validator engine.Validator
}

// Validator implements helmkube.Factory.
func (f factory) Validator(directive string) (validation.Schema, error) {
	return f.validator(directive)
}

type session struct {
	client
	getter  genericclioptions.RESTClientGetter
	records engine.Records
}

// Records implements engine.Session.
func (s *session) Records() engine.Records { return s.records }

// Over implements engine.Session.
func (s *session) Over(host engine.Host, records engine.Records) engine.Operations {
	b := newBooks()
	h := &hosted{Client: s.Client, host: host, books: b}
	return &operations{b, h, &action.Configuration{
		RESTClientGetter: s.getter, Log: quiet, KubeClient: h,
		Releases: helmstorage.Init(&storage{records: records, books: b}),
	}}
}

// operations are Helm 3's over a host.
type operations struct {
	books  *books
	hosted *hosted
	config *action.Configuration
}

// Install implements engine.Operations.
func (o *operations) Install(own *engine.Chart, values map[string]any, how engine.Install) (*engine.Release, error) {
	ch, err := chartFrom(own)
	if err != nil {
		return nil, err
	}
	o.sends(how.Sending, true) // objects that are there already may bear marks of Helm 3
	o.config.Releases.MaxHistory = how.MaxHistory
	i := action.NewInstall(o.config)
	i.ReleaseName, i.Namespace = how.Name, how.Namespace
	i.CreateNamespace, i.SkipCRDs = how.CreateNamespace, how.SkipCRDs
	i.Wait, i.Replace = how.Wait, how.Replace
	i.Timeout = forever
	i.Labels = how.Labels
	if how.Manifest != nil {
		i.PostRenderer = rendered(*how.Manifest)
	}
	i.WaitForJobs, i.DisableHooks, i.TakeOwnership, i.Description = how.WaitForJobs, how.DisableHooks, how.TakeOwnership, how.Description
	if o.config.Capabilities, err = capabilitiesOf(how.Capabilities); err != nil {
		return nil, err
	}
	if how.DryRun {
		i.DryRun, i.DryRunOption = true, "server"
	}
	return o.made(i.Run(ch, values))
}

// Upgrade implements engine.Operations.
func (o *operations) Upgrade(own *engine.Chart, values map[string]any, how engine.Upgrade) (*engine.Release, error) {
	ch, err := chartFrom(own)
	if err != nil {
		return nil, err
	}
	o.sends(how.Sending, how.Managers)
	u := action.NewUpgrade(o.config)
	u.Namespace = how.Namespace
	u.SkipCRDs = how.SkipCRDs
	u.Wait = how.Wait
	u.Timeout = forever
	u.MaxHistory = how.MaxHistory
	u.ResetValues = how.Reuse == engine.ResetValues
	u.ReuseValues, u.ResetThenReuseValues = how.Reuse == engine.ReuseValues, how.Reuse == engine.ResetThenReuseValues
	u.Labels = how.Labels
	if how.Manifest != nil {
		u.PostRenderer = rendered(*how.Manifest)
	}
	u.WaitForJobs, u.DisableHooks, u.TakeOwnership, u.Description = how.WaitForJobs, how.DisableHooks, how.TakeOwnership, how.Description
	if o.config.Capabilities, err = capabilitiesOf(how.Capabilities); err != nil {
		return nil, err
	}
	if how.DryRun {
		u.DryRun, u.DryRunOption = true, "server"
	}
	return o.made(u.Run(how.Name, ch, values))
}

// capabilitiesOf are Helm's; nil when it is to ask the cluster.
func capabilitiesOf(has *engine.Capabilities) (*chartutil.Capabilities, error) {
	if has == nil {
		return nil, nil
	}
	version, err := chartutil.ParseKubeVersion(has.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("version of the cluster: %w", err)
	}
	out := chartutil.DefaultCapabilities.Copy()
	out.KubeVersion, out.APIVersions = *version, has.APIVersions
	return out, nil
}

// Rollback implements engine.Operations.
func (o *operations) Rollback(how engine.Rollback) error {
	o.sends(how.Sending, true)
	r := action.NewRollback(o.config)
	r.Version, r.Wait, r.Timeout, r.MaxHistory = how.Revision, how.Wait, forever, how.MaxHistory
	r.DisableHooks = how.DisableHooks
	err := r.Run(how.Name)
	_, _ = o.made(o.books.made, nil)
	return err
}

// Uninstall implements engine.Operations.
func (o *operations) Uninstall(how engine.Uninstall) error {
	u := action.NewUninstall(o.config)
	u.Wait, u.Timeout, u.KeepHistory = how.Wait, forever, how.KeepHistory
	u.DisableHooks = how.DisableHooks
	_, err := u.Run(how.Name)
	return err
}

// sends says how objects are sent, and how the revision that is made says so.
func (o *operations) sends(how engine.Sending, managers bool) {
	o.hosted.how = how
	o.hosted.how.Managers = managers
	o.books.method = ""
	if how.ServerSide {
		o.books.method = engine.ServerSide
	}
}

// made is the step's side of the release that an operation ended with.
func (o *operations) made(r *release.Release, err error) (*engine.Release, error) {
	if r == nil {
		return nil, err
	}
	own, failed := o.books.pull(r)
	if err == nil {
		err = failed
	}
	return own, err
}

// rendered stands for what a chart renders to: the manifest of a revision. It
// runs no program, unlike Helm's other post-renderers.
type rendered string

var _ postrender.PostRenderer = rendered("")

// Run implements postrender.PostRenderer.
func (m rendered) Run(*bytes.Buffer) (*bytes.Buffer, error) {
	return bytes.NewBufferString(string(m)), nil
}
