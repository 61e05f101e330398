// Package engine says what kplan needs of Helm, whatever its version is: reading and
// rendering charts, carrying out installs, upgrades, rollbacks and uninstalls, and the
// records of releases. Packages helm3 and helm4 have it.
//
// An engine does what Helm does between the cluster and the records. How objects are
// sent, what is waited for, and what is recorded the step says, by a Host and Records
// of its own: no engine holds requests, waits or reports.
package engine

import (
	"context"
	"io"

	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
)

// Manager is the field manager of the helm command, so that people can go on with it.
const Manager = "helm"

// ErrNotFound says that there is no such record.
var ErrNotFound = driver.ErrReleaseNotFound

// Engine is one version of Helm. It is safe for concurrent use.
type Engine interface {
	// ServerSide reports whether this version applies new releases by the server unless
	// it is told otherwise.
	ServerSide() bool
	// Load reads a chart from a folder or an archive.
	Load(path string) (*Chart, error)
	// LoadArchive reads a chart from an archive.
	LoadArchive(io.Reader) (*Chart, error)
	// CheckDependencies tells which dependencies a chart lacks.
	CheckDependencies(*Chart) error
	// InstallOrder are the kinds in the order in which an install sends them; all others
	// come after them, by name.
	InstallOrder() []string
	// Render makes the release of a first install, and asks no cluster. The chart is
	// not fit for anything else afterwards.
	Render(ctx context.Context, ch *Chart, values map[string]any, how Render) (*Release, error)
	// Open connects to a cluster; namespace is that of the release. Requests have no
	// context of their own: the transport of getter and client ends them.
	Open(getter genericclioptions.RESTClientGetter, client kubernetes.Interface, namespace string) (Session, error)
}

// Render says how a chart is rendered without a cluster.
type Render struct {
	Name, Namespace string
	// KubeVersion is the cluster's, such as "v1.36.3", and APIVersions are versions and
	// kinds that it has besides Kubernetes' own.
	KubeVersion string
	APIVersions []string
	// IncludeCRDs makes the crds folder part of the manifest.
	IncludeCRDs bool
}

// Session is an engine over one cluster.
type Session interface {
	Client
	// Records are those of the namespace's releases, as this engine writes them.
	Records() Records
	// Over carries operations out by a host and records.
	Over(Host, Records) Operations
}

// Client reads objects, and sends them as Helm does.
type Client interface {
	// Build reads the objects of a manifest; validate lets the API server refuse fields
	// that it does not know.
	Build(manifest io.Reader, validate bool) (ResourceList, error)
	Create(ResourceList, Sending) (*Result, error)
	// Update creates or changes the objects of target, and deletes those of original
	// that target does not have.
	Update(original, target ResourceList, how Sending) (*Result, error)
	Delete(ResourceList, metav1.DeletionPropagation) (*Result, []error)
}

// Sending says how objects are sent.
type Sending struct {
	// ServerSide applies them by the server.
	ServerSide bool
	// ForceConflicts takes fields from other managers that want other values, when
	// objects are applied by the server.
	ForceConflicts bool
	// Managers makes of what Helm's manager applied by the client what it applied by
	// the server, before objects are applied by the server.
	Managers bool
	// Merge takes what is live into account for custom resources too, when objects are
	// applied by the client.
	Merge bool
}

// Host is what an engine works with while it carries an operation out.
type Host interface {
	Client
	// Wait waits until objects are ready; jobs says whether Jobs count.
	Wait(objects ResourceList, jobs bool) error
	// WatchUntilReady waits until hooks have run.
	WatchUntilReady(ResourceList) error
	// WaitForDelete waits until objects are gone.
	WaitForDelete(ResourceList) error
}

// Uninstaller is a host that deletes the objects of a release, which is uninstalled,
// in another way than those of hooks.
type Uninstaller interface {
	DeleteAll(ResourceList, metav1.DeletionPropagation) (*Result, []error)
}

// Records keeps the revisions of releases. What an engine hands it, it may change:
// the engine goes on with that.
type Records interface {
	Create(key string, r *Release) error
	Update(key string, r *Release) error
	// Delete and Get return ErrNotFound when there is none.
	Delete(key string) (*Release, error)
	Get(key string) (*Release, error)
	// Query returns the revisions that have some labels; ErrNotFound when there is none.
	Query(labels map[string]string) ([]*Release, error)
}

// Operations are what Helm does with a release.
type Operations interface {
	Install(ch *Chart, values map[string]any, how Install) (*Release, error)
	Upgrade(ch *Chart, values map[string]any, how Upgrade) (*Release, error)
	Rollback(how Rollback) error
	Uninstall(how Uninstall) error
}

// Install says how a release is installed.
type Install struct {
	Sending
	Name, Namespace           string
	CreateNamespace, SkipCRDs bool
	// Wait waits for the objects.
	Wait bool
	// Replace goes on after a revision that failed or was uninstalled.
	Replace bool
	// DryRun renders with the cluster, and sends and records nothing.
	DryRun bool
	Labels map[string]string
	// Manifest, when set, stands for what the chart's templates render to, hooks not
	// included.
	Manifest *string
	// MaxHistory is how many revisions are kept; 0 for all.
	MaxHistory int
	Options
}

// Upgrade says how a release is upgraded.
type Upgrade struct {
	Sending
	Name, Namespace string
	SkipCRDs        bool
	// Wait, DryRun, Manifest and MaxHistory are as those of Install.
	Wait, DryRun bool
	Labels       map[string]string
	Manifest     *string
	MaxHistory   int
	// Reuse says what the values of the revision before are good for.
	Reuse Reuse
	Options
}

// Options are what people may ask for with installs and upgrades alike.
type Options struct {
	// WaitForJobs lets Wait wait for Jobs too.
	WaitForJobs bool
	// DisableHooks runs no hooks.
	DisableHooks bool
	// TakeOwnership makes objects the release's that are another's or nobody's.
	TakeOwnership bool
	// Description is that of a revision that is deployed; "" for Helm's own.
	Description string
	// Capabilities, when set, are what the chart is told of the cluster.
	Capabilities *Capabilities
}

// Capabilities are what charts may ask about a cluster.
type Capabilities struct {
	// KubeVersion is such as "v1.36.3".
	KubeVersion string
	// APIVersions are all versions and kinds, such as "apps/v1" and "apps/v1/Deployment".
	APIVersions []string
}

// Reuse says what the values of the revision before are good for.
type Reuse string

// The ways to treat them.
const (
	// ResetValues does not look at them.
	ResetValues Reuse = ""
	// ReuseValues merges new ones over them and over those of their chart.
	ReuseValues Reuse = "reuse"
	// ResetThenReuseValues merges new ones over them, and these over those of the new
	// chart.
	ResetThenReuseValues Reuse = "reset_then_reuse"
)

// Rollback says how a release is rolled back.
type Rollback struct {
	Sending
	Name string
	// Revision is the one that is gone back to.
	Revision   int
	Wait       bool
	MaxHistory int
	// DisableHooks runs no hooks.
	DisableHooks bool
}

// Uninstall says how a release is uninstalled.
type Uninstall struct {
	Name        string
	Wait        bool
	KeepHistory bool
	// DisableHooks runs no hooks.
	DisableHooks bool
}
