// Package export writes plans and fleets as objects of engines that people already run:
// Argo Workflows, Tekton and plain Jobs, whose pods run kplan, and Flux and Argo CD, which
// install the same charts and manifests in their own way.
//
// Whatever of a plan the other engine cannot do is told, with the line of the plan: nothing
// is lost in silence. The package asks no cluster and applies nothing.
package export

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/redact"
)

// The rules of findings.
const (
	// Lost: it is in the plan or fleet and not in what was written.
	Lost = "not-exported"
	// Changed: it is in what was written, and does not mean quite the same there.
	Changed = "exported-otherwise"
)

// Rules are what findings can be of.
var Rules = []finding.Rule{
	{ID: Lost, Severity: finding.Warning, Summary: "something is not in the export"},
	{ID: Changed, Severity: finding.Note, Summary: "something means not quite the same in the export"},
}

// Target is an engine.
type Target struct {
	// Name is its name on the command line, Title that for people.
	Name, Title string
	// Pods says that kplan itself runs in the engine's pods.
	Pods bool
	// About says for people what is written.
	About string
	// Namespace is that of the objects where nothing else is said.
	Namespace string
	// secrets says that clusters of a fleet are reached by kubeconfigs in Secrets.
	secrets bool
	export  func(*exporter) error
}

// Targets are all engines, in the order of the help.
var Targets = []Target{
	{
		Name: "argo-workflows", Title: "Argo Workflows", Pods: true, Namespace: "kplan", secrets: true, export: (*exporter).argoWorkflows,
		About: `A Workflow whose pods run kplan: one pod for a plan, and of a fleet one for each cluster. Waves are tasks of a DAG; a wave that wants
approval, and a soak time, are suspended tasks.`,
	},
	{
		Name: "tekton", Title: "Tekton", Pods: true, Namespace: "kplan", secrets: true, export: (*exporter).tekton,
		About: `A Task, a Pipeline and a PipelineRun whose pods run kplan: one pod for a plan, and of a fleet one for each cluster. Waves are tasks of
the Pipeline with a matrix of clusters.`,
	},
	{
		Name: "flux", Title: "Flux", Namespace: "flux-system", secrets: true, export: (*exporter).flux,
		About: `A HelmRelease and its repository for each helm step, and a Kustomization for each apply step. Its manifests go into a Git repository
that Flux reads. Of a fleet they are made for each cluster, which is reached by the kubeconfig in its Secret. Flux keeps all of it as it is written,
from then on.`,
	},
	{
		Name: "argocd", Title: "Argo CD", Namespace: "argocd", export: (*exporter).argoCD,
		About: `An Application for each helm and apply step, in sync waves by what needs what. Manifests go into a Git repository. Of a fleet it is an
ApplicationSet for each step. Argo CD keeps all of it as it is written, from then on.`,
	},
	{
		Name: "jobs", Title: "Kubernetes Jobs", Pods: true, Namespace: "kplan", secrets: true, export: (*exporter).jobs,
		About: `A Job whose pod runs kplan; of a fleet an Indexed Job for each wave, with a pod for each cluster. All but the first are suspended until
somebody lets them begin.`,
	},
}

// Input is what is exported.
type Input struct {
	// Plan is the plan, with its variables resolved. Of a fleet it is as its first cluster
	// has it.
	Plan *plan.Plan
	// Rollout is a fleet's; nil for a plan alone.
	Rollout *fleet.Rollout
	// For reads the plan with the values of one cluster of the rollout.
	For func(fleet.Cluster) (*plan.Plan, error)
	// Fleet is the fleet file, for findings.
	Fleet *document.Source
	// Bundle is the archive of the plan's files, which pods read, and Digest its digest.
	Bundle []byte
	Digest string
	// HelmEngine is that of all helm steps, whatever the plan says; "" for what that says.
	HelmEngine plan.HelmEngine
	// Namespace is that of the objects, Image that of kplan, ServiceAccount that of pods.
	Namespace, Image, ServiceAccount string
	// Git says where manifests are that Flux and Argo CD read.
	Git Git
}

// Git is where manifests will be found.
type Git struct {
	// Repository is the name of Flux's GitRepository, as NAMESPACE/NAME, or the URL of Argo
	// CD's.
	Repository string
	// Revision is a branch, tag or commit, for Argo CD.
	Revision string
	// Path is the folder in the repository in which Result.Files will be.
	Path string
}

// Result is what was made.
type Result struct {
	// Objects are in the order in which they can be applied.
	Objects []map[string]any
	// Files are manifests that belong into the Git repository, by path.
	Files map[string][]byte
	// Findings say what is lost, or means something else.
	Findings []finding.Finding
	// First says what to do before the objects are applied.
	First []string
}

// UnreachableError says that the engine reaches no cluster of a fleet.
type UnreachableError struct{ target string }

func (e *UnreachableError) Error() string {
	return "no cluster of the fleet has its kubeconfig in a Secret, by which " + e.target + " would reach it"
}

// Hint says what to do about it.
func (e *UnreachableError) Hint() string {
	return "find the clusters by capi, k0rdent or sveltos in the inventory, or list them with kubeconfig_secret"
}

// Export makes the objects of an engine.
func Export(t Target, in Input) (*Result, error) {
	x := &exporter{
		Input: in, Result: &Result{Files: map[string][]byte{}}, target: t,
		told: map[string]bool{}, names: map[string]string{}, keys: map[string]string{}, folders: map[string]string{},
	}
	x.Namespace = cmp.Or(x.Namespace, t.Namespace)
	x.ServiceAccount = cmp.Or(x.ServiceAccount, "kplan")
	x.secrets = append(x.secrets, in.Plan.Sensitive)
	if t.secrets && in.Rollout != nil && !slices.ContainsFunc(in.Rollout.Clusters, func(c fleet.Cluster) bool { return c.Access.Secret != nil }) {
		return nil, &UnreachableError{t.Title}
	}
	if err := t.export(x); err != nil {
		return nil, err
	}
	x.hide()
	order := map[string]int{}
	for i, text := range in.Plan.Texts {
		order[text.File()] = i - len(in.Plan.Texts)
	}
	finding.Sort(x.Findings, order)
	return x.Result, nil
}

// exporter is one export at work.
type exporter struct {
	Input
	*Result
	target Target
	// secrets are what must not be written, of the plan with the values of each cluster.
	secrets []*redact.Set
	// told has findings, so that many clusters do not tell the same.
	told map[string]bool
	// names are those of objects by what they stand for, and keys the other way round.
	names, keys map[string]string
	// folders are those of manifests by step and content.
	folders map[string]string
}

func (x *exporter) add(o ...map[string]any) { x.Objects = append(x.Objects, o...) }

// first says what to do before, once.
func (x *exporter) first(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.First, text) {
		x.First = append(x.First, text)
	}
}

// lost says what of a place is not in the export, and what to do about it.
func (x *exporter) lost(at document.Place, hint, format string, args ...any) {
	x.found(finding.Warning, Lost, at, hint, format, args...)
}

// changed says what of a place means not quite the same.
func (x *exporter) changed(at document.Place, hint, format string, args ...any) {
	x.found(finding.Note, Changed, at, hint, format, args...)
}

func (x *exporter) found(s finding.Severity, rule string, at document.Place, hint, format string, args ...any) {
	f := finding.Finding{
		Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Severity: s, Rule: rule, Message: fmt.Sprintf(format, args...), Hint: hint,
	}
	if key := f.Pos.String() + f.Message; !x.told[key] {
		x.told[key] = true
		x.Findings = append(x.Findings, f)
	}
}

// inFleet is a place of the fleet file.
func (x *exporter) inFleet(fields ...any) document.Place {
	if x.Fleet == nil {
		return document.Place{Path: document.Path(fields).String()}
	}
	return x.Fleet.Place(fields...)
}

// inPlan is a place of the plan's own file.
func (x *exporter) inPlan(fields ...any) document.Place {
	if len(x.Plan.Texts) == 0 {
		return document.Place{Pos: document.Pos{File: x.Plan.File}, Path: document.Path(fields).String()}
	}
	return x.Plan.Texts[0].Place(fields...)
}

// object makes an object of Kubernetes.
func (x *exporter) object(apiVersion, kind, name string, spec map[string]any) map[string]any {
	o := map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": name, "namespace": x.Namespace,
			"labels": map[string]any{"app.kubernetes.io/managed-by": "kplan", "kplan.dev/plan": x.Plan.Metadata.Name},
		},
	}
	if spec != nil {
		o["spec"] = spec
	}
	return o
}

// in puts an object into another namespace.
func in(namespace string, o map[string]any) map[string]any {
	o["metadata"].(map[string]any)["namespace"] = namespace
	return o
}
