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
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
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
	About  string
	export func(*exporter) error
}

// Targets are all engines, in the order of the help.
var Targets = []Target{
	{
		Name: "argo-workflows", Title: "Argo Workflows", Pods: true, export: (*exporter).argoWorkflows,
		About: `A Workflow with a pod for each cluster, which runs the whole plan there: waves are tasks of a DAG, a wave that wants approval waits at a
suspended task, and a soak time is a suspended task with a duration.`,
	},
	{
		Name: "tekton", Title: "Tekton", Pods: true, export: (*exporter).tekton,
		About: `A Pipeline and a PipelineRun with a pod for each cluster, which runs the whole plan there: waves are tasks with a matrix of clusters.`,
	},
	{
		Name: "flux", Title: "Flux", export: (*exporter).flux,
		About: `A HelmRelease with its repository for each helm step, and a Kustomization for each apply step, whose manifests are read from a Git repository
that Flux has. Of a fleet, for each cluster, reached by the kubeconfig in its Secret.`,
	},
	{
		Name: "argocd", Title: "Argo CD", export: (*exporter).argoCD,
		About: `An Application for each helm and apply step, with sync waves by what needs what. Of a fleet, an ApplicationSet for each step over the clusters.`,
	},
	{
		Name: "jobs", Title: "Kubernetes Jobs", Pods: true, export: (*exporter).jobs,
		About: `A Job that runs the whole plan; of a fleet an Indexed Job for each wave, of which all but the first are suspended.`,
	},
}

// Input is what is exported.
type Input struct {
	// Plan is the plan, with its variables resolved. Of a fleet it is as no cluster has it.
	Plan *plan.Plan
	// Rollout is a fleet's; nil for a plan alone.
	Rollout *fleet.Rollout
	// For reads the plan with the values of one cluster of the rollout.
	For func(fleet.Cluster) (*plan.Plan, error)
	// FleetFile is the path of the fleet file, for findings.
	FleetFile string
	// Bundle is the archive of the plan's files, which pods read.
	Bundle []byte
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

// Export makes the objects of an engine.
func Export(t Target, in Input) (*Result, error) {
	x := &exporter{Input: in, Result: &Result{Files: map[string][]byte{}}, target: t}
	x.Namespace = cmp.Or(x.Namespace, "kplan")
	x.ServiceAccount = cmp.Or(x.ServiceAccount, "kplan")
	if err := t.export(x); err != nil {
		return nil, err
	}
	order := map[string]int{}
	for i, text := range in.Plan.Texts {
		order[text.File()] = i - len(in.Plan.Texts)
	}
	finding.Sort(x.Findings, order)
	x.Findings = slices.CompactFunc(x.Findings, func(a, b finding.Finding) bool { return a.Pos == b.Pos && a.Message == b.Message })
	return x.Result, nil
}

// exporter is one export at work.
type exporter struct {
	Input
	*Result
	target Target
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
	x.Findings = append(x.Findings, finding.Finding{
		Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Severity: s, Rule: rule, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// inFleet is a place of the fleet file, of which only the path is known.
func (x *exporter) inFleet(path string) document.Place {
	return document.Place{Pos: document.Pos{File: x.FleetFile}, Path: path}
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
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": name, "namespace": x.Namespace,
			"labels": map[string]any{"app.kubernetes.io/managed-by": "kplan", "kplan.dev/plan": x.Plan.Metadata.Name},
		},
		"spec": spec,
	}
}

// objectName makes the name of an object of words: at most 63 characters of DNS labels.
func objectName(words ...string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), "-")), "-")
	if len(name) <= maxName {
		return name
	}
	return strings.TrimRight(name[:maxName-9], "-") + "-" + shortDigest(name)
}

const maxName = 52 // Jobs and Workflows add to it for their pods
