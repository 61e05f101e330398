// Package helm4 is the engine of Helm 4, and the client that applies objects by the
// server, which Helm 3 has not.
//
// Its waits are the step's alone: Helm's wait strategies are set, since Helm refuses
// to do without, and never used.
package helm4

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmkube "helm.sh/helm/v4/pkg/kube"
	helmrelease "helm.sh/helm/v4/pkg/release"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	helmstorage "helm.sh/helm/v4/pkg/storage"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// forever stands for Helm's timeouts, which the step's own bound replaces.
const forever = 24 * time.Hour

func init() { helmkube.ManagedFieldsManager = engine.Manager }

// Engine is Helm 4.
type Engine struct{}

var _ engine.Engine = Engine{}

// ServerSide implements engine.Engine.
func (Engine) ServerSide() bool { return true }

// Load implements engine.Engine.
func (Engine) Load(path string) (*engine.Chart, error) { return loader.Load(path) }

// LoadArchive implements engine.Engine.
func (Engine) LoadArchive(r io.Reader) (*engine.Chart, error) { return loader.LoadArchive(r) }

// CheckDependencies implements engine.Engine.
func (Engine) CheckDependencies(ch *engine.Chart) error {
	wanted := make([]chart.Dependency, len(ch.Metadata.Dependencies))
	for i, d := range ch.Metadata.Dependencies {
		wanted[i] = d
	}
	return action.CheckDependencies(ch, wanted)
}

// InstallOrder implements engine.Engine.
func (Engine) InstallOrder() []string { return releaseutil.InstallOrder }

// Render implements engine.Engine.
func (Engine) Render(ctx context.Context, ch *engine.Chart, values map[string]any, how engine.Render) (*engine.Release, error) {
	version, err := common.ParseKubeVersion(how.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("version of the cluster: %w", err)
	}
	i := action.NewInstall(action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)))
	i.ReleaseName, i.Namespace = how.Name, how.Namespace
	i.DryRunStrategy, i.Replace = action.DryRunClient, true
	i.WaitStrategy = helmkube.HookOnlyStrategy
	i.IncludeCRDs = how.IncludeCRDs
	i.KubeVersion, i.APIVersions = version, how.APIVersions
	return made(i.RunWithContext(ctx, ch, values))
}

// Open implements engine.Engine.
func (Engine) Open(getter genericclioptions.RESTClientGetter, set kubernetes.Interface, namespace string) (engine.Session, error) {
	return &session{NewClient(getter, namespace), getter, engine.Secrets{Client: set.CoreV1().Secrets(namespace)}.Records()}, nil
}

type session struct {
	Client
	getter  genericclioptions.RESTClientGetter
	records engine.Records
}

// Records implements engine.Session.
func (s *session) Records() engine.Records { return s.records }

// Over implements engine.Session.
func (s *session) Over(host engine.Host, records engine.Records) engine.Operations {
	h := &hosted{Client: s.base, host: host}
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	config.RESTClientGetter, config.KubeClient = s.getter, h
	config.Releases = helmstorage.Init(storage{records: records})
	config.Releases.SetLogger(slog.DiscardHandler)
	return &operations{h, config}
}

// operations are Helm 4's over a host.
type operations struct {
	hosted *hosted
	config *action.Configuration
}

// Install implements engine.Operations.
func (o *operations) Install(ch *engine.Chart, values map[string]any, how engine.Install) (*engine.Release, error) {
	// Objects that are there already may bear marks of Helm 3: they become Helm 4's.
	o.hosted.how = how.Sending
	o.hosted.how.Managers = true
	o.hosted.wait = how.Wait
	o.config.Releases.MaxHistory = how.MaxHistory
	i := action.NewInstall(o.config)
	i.ReleaseName, i.Namespace = how.Name, how.Namespace
	i.CreateNamespace, i.SkipCRDs, i.Replace = how.CreateNamespace, how.SkipCRDs, how.Replace
	i.ServerSideApply, i.ForceConflicts = how.ServerSide, how.ServerSide && how.ForceConflicts
	i.WaitStrategy, i.Timeout = helmkube.HookOnlyStrategy, forever
	i.Labels = how.Labels
	if how.Manifest != nil {
		rendersTo(ch, *how.Manifest)
	}
	i.WaitForJobs, i.DisableHooks, i.TakeOwnership, i.Description = how.WaitForJobs, how.DisableHooks, how.TakeOwnership, how.Description
	o.hosted.how.Merge = how.TakeOwnership // as Helm does, then
	var err error
	if o.config.Capabilities, err = capabilitiesOf(how.Capabilities); err != nil {
		return nil, err
	}
	if how.DryRun {
		i.DryRunStrategy = action.DryRunServer
	}
	return made(i.Run(ch, values))
}

// Upgrade implements engine.Operations.
func (o *operations) Upgrade(ch *engine.Chart, values map[string]any, how engine.Upgrade) (*engine.Release, error) {
	o.hosted.how, o.hosted.wait = how.Sending, how.Wait
	u := action.NewUpgrade(o.config)
	u.Namespace, u.SkipCRDs = how.Namespace, how.SkipCRDs
	u.ServerSideApply, u.ForceConflicts = yes(how.ServerSide), how.ServerSide && how.ForceConflicts
	u.WaitStrategy, u.Timeout = helmkube.HookOnlyStrategy, forever
	u.MaxHistory = how.MaxHistory
	u.ResetValues = how.Reuse == engine.ResetValues
	u.ReuseValues, u.ResetThenReuseValues = how.Reuse == engine.ReuseValues, how.Reuse == engine.ResetThenReuseValues
	u.Labels = how.Labels
	if how.Manifest != nil {
		rendersTo(ch, *how.Manifest)
	}
	u.WaitForJobs, u.DisableHooks, u.TakeOwnership, u.Description = how.WaitForJobs, how.DisableHooks, how.TakeOwnership, how.Description
	var err error
	if o.config.Capabilities, err = capabilitiesOf(how.Capabilities); err != nil {
		return nil, err
	}
	if how.DryRun {
		u.DryRunStrategy = action.DryRunServer
	}
	return made(u.Run(how.Name, ch, values))
}

// Rollback implements engine.Operations.
func (o *operations) Rollback(how engine.Rollback) error {
	o.hosted.how, o.hosted.wait = how.Sending, how.Wait
	o.hosted.how.Managers = true
	r := action.NewRollback(o.config)
	r.ServerSideApply, r.ForceConflicts = yes(how.ServerSide), how.ServerSide && how.ForceConflicts
	r.WaitStrategy, r.Timeout = helmkube.HookOnlyStrategy, forever
	r.Version, r.MaxHistory, r.DisableHooks = how.Revision, how.MaxHistory, how.DisableHooks
	return r.Run(how.Name)
}

// Uninstall implements engine.Operations.
func (o *operations) Uninstall(how engine.Uninstall) error {
	o.hosted.wait = how.Wait
	o.hosted.how = engine.Sending{ServerSide: true} // as Helm 4 does the hooks
	u := action.NewUninstall(o.config)
	u.WaitStrategy, u.Timeout = helmkube.HookOnlyStrategy, forever
	u.KeepHistory, u.DisableHooks = how.KeepHistory, how.DisableHooks
	u.DeletionPropagation = cascade
	_, err := u.Run(how.Name)
	return err
}

// capabilitiesOf are Helm's; nil when it is to ask the cluster.
func capabilitiesOf(has *engine.Capabilities) (*common.Capabilities, error) {
	if has == nil {
		return nil, nil
	}
	version, err := common.ParseKubeVersion(has.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("version of the cluster: %w", err)
	}
	out := common.DefaultCapabilities.Copy()
	out.KubeVersion, out.APIVersions = *version, has.APIVersions
	return out, nil
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// made is the release that an operation ended with.
func made(r helmrelease.Releaser, err error) (*engine.Release, error) {
	own, _ := r.(*engine.Release)
	return own, err
}

// rendersTo makes a chart render to a manifest and to no hooks. Helm 4 would write what
// a post-renderer returns anew, and does not call one for a chart without templates.
func rendersTo(ch *engine.Chart, manifest string) {
	for _, sub := range ch.Dependencies() {
		rendersTo(sub, "")
	}
	ch.Templates = []*engine.File{{Name: "templates/manifest.yaml", Data: []byte("{{ " + strconv.Quote(manifest) + " }}")}}
}
