package export

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
)

// lostInPods tells what is not there where pods run kplan: what the plan has from this machine.
func (x *exporter) lostInPods() {
	for _, v := range x.Plan.Variables {
		const hint = "read it from a Secret of the cluster (secret: of the variable), or give the container the environment variable"
		switch {
		case v.Sensitive && slices.Contains([]plan.VarSource{"", plan.SourceSet, plan.SourceVarFile, plan.SourceEnv}, v.Source):
			x.lost(x.inPlan("vars", v.Name), hint, "pods have no value of the variable %s: it is sensitive, and not written", v.Name)
		case v.Source == plan.SourceEnv:
			x.changed(x.inPlan("vars", v.Name), "", "the variable %s has the value that the environment %s has now", v.Name, v.Env)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.Plan.Clusters)) {
		c := x.Plan.Clusters[name]
		switch {
		case x.Rollout != nil && name == x.Rollout.Target:
		case c.KubeconfigSecret != nil:
			x.first("let the ServiceAccount %s read the Secret %s with the kubeconfig of the cluster %s", x.ServiceAccount, c.KubeconfigSecret.Name, name)
		default:
			x.lost(x.inPlan("clusters", name), "put its kubeconfig into a Secret (kubeconfig_secret)", "pods have no kubeconfig of the plan's cluster %s", name)
		}
	}
	for _, s := range x.Plan.Steps {
		x.lostOfStep(s)
	}
	for _, r := range x.Plan.Reads() {
		if text, err := os.ReadFile(r.Path); err == nil && isEncrypted(text) {
			x.lost(x.inPlan(), "give the container the key by an environment variable, such as SOPS_AGE_KEY, from a Secret", "pods have no key for %s, which is encrypted", x.Plan.Rel(r.Path))
		}
	}
}

// lostOfStep tells what a step has from this machine.
func (x *exporter) lostOfStep(s plan.Step) {
	if s.Skip != "" {
		return
	}
	if s.Apply != nil && slices.Contains(s.Apply.Files, plan.Stdin) {
		x.lost(s.Locate("apply", "files"), "put the manifests beside the plan", "step %s: pods have no standard input", s.Name)
	}
	if s.Delete != nil && slices.Contains(s.Delete.Files, plan.Stdin) {
		x.lost(s.Locate("delete", "files"), "put the manifests beside the plan", "step %s: pods have no standard input", s.Name)
	}
	if s.Helm == nil || s.Helm.IsLocal() || s.Helm.IsOCI() {
		return
	}
	name := s.Helm.Repo
	if name == "" {
		name, _, _ = strings.Cut(s.Helm.Chart, "/")
	}
	if _, known := x.Plan.Repositories[name]; !known && !strings.Contains(name, "://") {
		x.lost(s.Locate("helm", "chart"), "add it to repositories of the plan", "step %s: pods do not have the repository %s of helm repo add", s.Name, name)
	}
}

// lostBudget tells of the budget, which no other engine has.
func (x *exporter) lostBudget() {
	if x.Rollout == nil {
		return
	}
	if x.Rollout.Limits.SameCause != nil {
		x.lost(x.inFleet("budget", "same_cause"), "", "%s counts no failures by cause", x.target.Title)
	}
	if x.Rollout.Limits.Unreachable != nil {
		x.lost(x.inFleet("budget", "unreachable"), "", "%s does not tell clusters that are out of reach from others that failed", x.target.Title)
	}
}
