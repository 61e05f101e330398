package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// The APIs of Flux, as helm-controller 1.6.0, and kustomize- and source-controller 1.10.1 have them.
const (
	fluxHelm      = "helm.toolkit.fluxcd.io/v2"
	fluxSource    = "source.toolkit.fluxcd.io/v1"
	fluxKustomize = "kustomize.toolkit.fluxcd.io/v1"
)

// fluxer makes Flux's objects of a plan for one cluster.
type fluxer struct {
	*exporter
	plan *plan.Plan
	// cluster begins the names of objects; "" of a plan alone. The objects are in namespace:
	// that of the kubeconfig's Secret, which Flux wants beside what names it.
	cluster, namespace string
	// into is the namespace for what names none.
	into       string
	kubeconfig map[string]any // of spec.kubeConfig; nil for the cluster that Flux is in
	// made are the objects of steps by their names, and steps the steps themselves.
	made  map[string]*fluxObject
	steps map[string]plan.Step
}

// fluxObject is the HelmRelease or Kustomization of a step.
type fluxObject struct {
	kind, name string
	spec       map[string]any
	folder     *folder // of a Kustomization
}

func (x *exporter) flux() error {
	x.lostPlan()
	if x.Rollout == nil {
		return x.fluxCluster(x.Plan, nil)
	}
	x.lost(x.inFleet("waves"), "commit one cluster after another", "Flux installs on all clusters at once: waves, their limits, soak times and approvals are left out")
	x.lostBudget()
	for i := range x.Rollout.Clusters {
		c := &x.Rollout.Clusters[i]
		if c.Access.Secret == nil || c.Access.ArgoCD {
			x.lost(x.inFleet("inventory"), "put its kubeconfig into a Secret", "the cluster %s is left out: Flux reaches clusters by kubeconfigs in Secrets", c.Name)
			continue
		}
		p, err := x.For(*c)
		if err == nil {
			err = x.fluxCluster(p, c)
		}
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	return nil
}

func (x *exporter) fluxCluster(p *plan.Plan, c *fleet.Cluster) error {
	f := &fluxer{exporter: x, plan: p, namespace: x.Namespace, made: map[string]*fluxObject{}, steps: map[string]plan.Step{}}
	if c != nil {
		f.cluster, f.namespace, f.into = c.Name, cmp.Or(c.Access.Secret.Namespace, x.Namespace), c.Access.DefaultNamespace
		ref := map[string]any{"name": c.Access.Secret.Name}
		if c.Access.Secret.Key != "" {
			ref["key"] = c.Access.Secret.Key
		}
		f.kubeconfig = map[string]any{"secretRef": ref}
	}
	for _, s := range p.Steps {
		f.steps[s.Name] = s
	}
	all, err := x.steps(p)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := f.step(s); err != nil {
			return err
		}
		s.end()
	}
	return nil
}

func (f *fluxer) step(s *step) error {
	switch s.Kind() {
	case plan.KindHelm:
		return f.release(s)
	case plan.KindApply:
		return f.kustomization(s)
	case plan.KindWait:
		f.wait(s)
	case plan.KindWebhook:
		s.leave("objects that come too early are tried again after spec.retryInterval", "nothing waits until the webhooks answer, and no canary proves it")
	case plan.KindDelete:
		s.leave("delete it by hand, or by spec.prune", "Flux deletes what leaves its repository, and nothing else")
	case plan.KindInclude:
	}
	return nil
}

// object adds the object of a step, with the fields that both of Flux's kinds have.
func (f *fluxer) object(apiVersion, kind string, s *step) *fluxObject {
	s.common()
	spec := map[string]any{"interval": "10m", "timeout": duration(f.plan.StepTimeout(s.Step))}
	if f.kubeconfig != nil {
		spec["kubeConfig"] = f.kubeconfig
	}
	if on := f.dependsOn(s, kind); len(on) > 0 {
		spec["dependsOn"] = on
	}
	s.take("timeout", "needs")
	o := &fluxObject{kind: kind, name: f.unique(kind, f.namespace, f.words(s)...), spec: spec}
	f.add(in(f.namespace, f.exporter.object(apiVersion, kind, o.name, spec)))
	f.made[s.Name] = o
	return o
}

// words say what an object of a step stands for.
func (f *fluxer) words(s *step) []string {
	if f.cluster == "" {
		return []string{s.Name}
	}
	return []string{f.cluster, s.Name}
}

// duration writes a duration as Flux takes it: in at most one unit for each.
func duration(d time.Duration) string { return d.Round(time.Second).String() }

// dependsOn are the objects of one kind that the step needs: Flux knows no others. Behind a
// step that is left out stands what that one needs.
func (f *fluxer) dependsOn(s *step, kind string) []any {
	var on []any
	var add func(of plan.Step, seen []string)
	add = func(of plan.Step, seen []string) {
		for _, need := range of.Needs {
			o, needed := f.made[need.Step], f.steps[need.Step]
			switch {
			case slices.Contains(seen, need.Step):
				continue
			case o == nil && needed.Skip == "":
				s.lost(s.at("needs"), "", "step %s: it does not wait for the step %s, which is left out", s.Name, need.Step)
			case o == nil:
			case o.kind != kind:
				s.lost(s.at("needs"), acrossKinds[kind], "step %s: it does not wait for the step %s: dependsOn is for objects of one kind", s.Name, need.Step)
			case !slices.ContainsFunc(on, func(e any) bool { return e.(map[string]any)["name"] == o.name }):
				on = append(on, map[string]any{"name": o.name})
			}
			if o == nil || needed.Wait != nil { // whose object is that of a step that it needs
				add(needed, append(seen, need.Step))
			}
		}
	}
	add(s.Step, nil)
	return on
}

var acrossKinds = map[string]string{
	"Kustomization": "put the HelmRelease into a folder that a Kustomization applies with wait: true, and depend on that",
	"HelmRelease":   "put it into a folder that a Kustomization applies, which depends on the other one",
}

// kustomization makes a Kustomization of an apply step.
func (f *fluxer) kustomization(s *step) error {
	at, err := s.manifests(f.cluster)
	if err != nil {
		return err
	}
	o := f.object(fluxKustomize, "Kustomization", s)
	o.folder = at
	repo, namespace := "flux-system", "flux-system"
	if f.Git.Repository != "" {
		repo, namespace = f.Git.Repository, f.namespace
		if before, after, is := strings.Cut(repo, "/"); is {
			namespace, repo = before, after
		}
	}
	o.spec["path"], o.spec["prune"], o.spec["wait"] = "./"+at.path, s.Apply.Prune, s.Apply.Wait == plan.WaitReady
	o.spec["sourceRef"] = map[string]any{"kind": "GitRepository", "name": repo, "namespace": namespace}
	if s.Apply.OnImmutable == plan.RecreateImmutable {
		o.spec["force"] = true
	}
	f.target(s, o, at)
	if s.Apply.Wait == plan.WaitReady {
		f.ready(s, o)
	}
	s.take("apply.prune", "apply.wait", "apply.on_immutable", "apply.namespace")
	s.take("apply.force_conflicts") // Flux always takes fields over
	f.first("commit what was written beside the objects to the Git repository that the GitRepository %s/%s reads", namespace, repo)
	f.retry(s, o.spec)
	return nil
}

// target says into which namespace a Kustomization puts objects that name none. Flux gives it
// to all.
func (f *fluxer) target(s *step, o *fluxObject, at *folder) {
	namespace := cmp.Or(s.Apply.Namespace, f.into)
	others := at.namespaces()
	delete(others, namespace)
	switch {
	case namespace == "":
		return
	case len(others) > 0:
		s.lost(s.at("apply.namespace"), "write the namespace into the manifests that name none", "step %s: some objects name a namespace of their own, and Flux would give %s to them too: those that name none come into Flux's", s.Name, namespace)
		return
	case !at.all:
		s.changed(s.at("apply.namespace"), "", "step %s: the namespace %s is given to all objects, also to those that name another", s.Name, namespace)
	}
	o.spec["targetNamespace"] = namespace
}

// retry says how far apart attempts are, of which Flux makes as many as it takes.
func (f *fluxer) retry(s *step, spec map[string]any) {
	r := s.retries(false)
	if r.InstallRetries > 1 {
		spec["retryInterval"] = interval(r)
		s.changed(s.atRetry("install_retries"), "", "step %s: Flux tries again without end, and not %d times", s.Name, r.InstallRetries)
	}
}

// interval is the wait between two attempts.
func interval(r plan.Retry) string {
	return duration(time.Duration(max(*r.RetryDelaySeconds, 1) * float64(time.Second)))
}

// source adds an object that names where something comes from, once for all that ask there,
// and returns its name.
func (f *fluxer) source(kind string, spec map[string]any, words ...string) (string, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	key := kind + "\x00" + f.namespace + "\x00" + string(text)
	if f.folders[key] == "" {
		f.folders[key] = f.unique(kind, f.namespace, words...)
		f.add(in(f.namespace, f.exporter.object(fluxSource, kind, f.folders[key], spec)))
	}
	return f.folders[key], nil
}
