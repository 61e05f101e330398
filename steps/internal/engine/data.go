package engine

import (
	helmcommon "helm.sh/helm/v4/pkg/chart/common"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// The data of releases is that of Helm 4, which is all of Helm 3's and how a release
// is applied: both write the same JSON.
type (
	// Release is one revision of a release.
	Release = release.Release
	// Info tells of a revision how it stands, and since when.
	Info = release.Info
	// Status is as helm list shows it, such as deployed.
	Status = common.Status
	// Hook is a hook of a revision.
	Hook = release.Hook
	// HookEvent says when a hook runs.
	HookEvent = release.HookEvent
	// HookExecution is when a hook ran last, and how that ended.
	HookExecution = release.HookExecution
	// HookDeletePolicy says when the objects of a hook are deleted.
	HookDeletePolicy = release.HookDeletePolicy
	// HookOutputLogPolicy says when a hook's log is shown.
	HookOutputLogPolicy = release.HookOutputLogPolicy
	// HookPhase is how a hook's last run ended.
	HookPhase = release.HookPhase
	// Chart is a chart with its subcharts.
	Chart = helmchart.Chart
	// Metadata is a chart's Chart.yaml.
	Metadata = helmchart.Metadata
	// Dependency is a chart that another one needs.
	Dependency = helmchart.Dependency
	// Lock is a chart's Chart.lock.
	Lock = helmchart.Lock
	// File is a file of a chart.
	File = helmcommon.File
	// ResourceList is a list of objects with the clients for them.
	ResourceList = helmkube.ResourceList
	// Result is what became of objects that were sent.
	Result = helmkube.Result
)

// How revisions stand.
const (
	StatusUnknown         = common.StatusUnknown
	StatusDeployed        = common.StatusDeployed
	StatusUninstalled     = common.StatusUninstalled
	StatusSuperseded      = common.StatusSuperseded
	StatusFailed          = common.StatusFailed
	StatusUninstalling    = common.StatusUninstalling
	StatusPendingInstall  = common.StatusPendingInstall
	StatusPendingUpgrade  = common.StatusPendingUpgrade
	StatusPendingRollback = common.StatusPendingRollback
)

// When hooks run.
const (
	HookPreInstall   = release.HookPreInstall
	HookPostInstall  = release.HookPostInstall
	HookPreDelete    = release.HookPreDelete
	HookPostDelete   = release.HookPostDelete
	HookPreUpgrade   = release.HookPreUpgrade
	HookPostUpgrade  = release.HookPostUpgrade
	HookPreRollback  = release.HookPreRollback
	HookPostRollback = release.HookPostRollback
	HookTest         = release.HookTest
)

// When the objects of hooks are deleted.
const (
	HookSucceeded          = release.HookSucceeded
	HookFailed             = release.HookFailed
	HookBeforeHookCreation = release.HookBeforeHookCreation
)

// How the last run of a hook ended.
const (
	HookPhaseUnknown   = release.HookPhaseUnknown
	HookPhaseRunning   = release.HookPhaseRunning
	HookPhaseSucceeded = release.HookPhaseSucceeded
	HookPhaseFailed    = release.HookPhaseFailed
)

// How the objects of a revision were applied. Of a revision that does not say, they
// were applied by the client.
const (
	ClientSide = string(release.ApplyMethodClientSideApply)
	ServerSide = string(release.ApplyMethodServerSideApply)
)

// Annotations by which charts say what is done with an object.
const (
	// HookAnnotation makes an object of a chart a hook.
	HookAnnotation = release.HookAnnotation
	// ResourcePolicyAnno with KeepPolicy lets an object stay when its release goes.
	ResourcePolicyAnno = helmkube.ResourcePolicyAnno
	KeepPolicy         = helmkube.KeepPolicy
)
