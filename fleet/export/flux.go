package export

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// The APIs of Flux 2.3 and later.
const (
	fluxHelm      = "helm.toolkit.fluxcd.io/v2"
	fluxSource    = "source.toolkit.fluxcd.io/v1"
	fluxKustomize = "kustomize.toolkit.fluxcd.io/v1"
)

// fluxer makes Flux's objects of a plan for one cluster.
type fluxer struct {
	*exporter
	// prefix begins the names of objects, and namespace has them: that of the kubeconfig's
	// Secret, which Flux wants beside what names it.
	prefix, namespace string
	kubeconfig        map[string]any // of spec.kubeConfig; nil for the cluster that Flux is in
	made              map[string]string
	sources           map[string]bool
}

func (x *exporter) flux() error {
	if x.Rollout == nil {
		return x.fluxCluster(x.Plan, nil)
	}
	x.lost(x.inFleet("waves"), "commit one cluster after another", "Flux installs on all clusters at once: waves, their limits, soak times and approvals are left out")
	for i := range x.Rollout.Clusters {
		c := &x.Rollout.Clusters[i]
		if c.Access.Secret == nil || c.Access.ArgoCD {
			x.lost(x.inFleet("inventory"), "put its kubeconfig into a Secret", "the cluster %s is left out: Flux reaches clusters by kubeconfigs in Secrets", c.Name)
			continue
		}
		p, err := x.For(*c)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		if err := x.fluxCluster(p, c); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	return nil
}

func (x *exporter) fluxCluster(p *plan.Plan, c *fleet.Cluster) error {
	f := &fluxer{exporter: x, namespace: x.Namespace, made: map[string]string{}, sources: map[string]bool{}}
	if c != nil {
		f.prefix, f.namespace = c.Name, c.Access.Secret.Namespace
		ref := map[string]any{"name": c.Access.Secret.Name}
		if c.Access.Secret.Key != "" {
			ref["key"] = c.Access.Secret.Key
		}
		f.kubeconfig = map[string]any{"secretRef": ref}
	}
	all, err := x.steps(p)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := f.step(p, s); err != nil {
			return err
		}
		s.end()
	}
	return nil
}

func (f *fluxer) step(p *plan.Plan, s *step) error {
	if s.Cluster != "" && (f.Rollout == nil || s.Cluster != f.Rollout.Target) {
		s.lose("cluster", "apply the objects with spec.kubeConfig of that cluster", "it works on the cluster %s of the plan, and the object says nothing of it", s.Cluster)
	}
	s.take("cluster")
	switch s.Kind() {
	case plan.KindHelm:
		return f.release(p, s)
	case plan.KindApply:
		return f.kustomization(p, s)
	case plan.KindWait:
		s.take("wait.resource", "wait.namespace", "wait.selector", "wait.for", "timeout", "needs", "retry")
		s.lost(s.Locate(), "add it to spec.healthChecks of the Kustomization that brings the object", "step %s: Flux has no step that waits for %s", s.Name, s.Wait.Resource)
	case plan.KindWebhook:
		s.take("webhook.release", "webhook.configuration", "webhook.service", "webhook.selector", "webhook.files", "webhook.namespace", "webhook.canary", "webhook.stable", "timeout", "needs", "retry")
		s.lost(s.Locate(), "objects that come too early are tried again after spec.retryInterval", "step %s: nothing waits until the webhooks answer, and no canary proves it", s.Name)
	case plan.KindDelete:
		s.take("delete.files", "delete.objects", "delete.resource", "delete.release", "delete.selector", "delete.namespace", "delete.kustomize", "delete.delete_crds", "delete.evaluate", "timeout", "needs", "retry")
		s.lost(s.Locate(), "delete it by hand, or by spec.prune", "step %s: Flux deletes what leaves its repository, and nothing else", s.Name)
	case plan.KindInclude:
	}
	return nil
}

// common are the fields that both of Flux's kinds have.
func (f *fluxer) common(p *plan.Plan, s *step, kind string) map[string]any {
	spec := map[string]any{"interval": "10m", "timeout": p.StepTimeout(s.Step).Round(time.Second).String()}
	if f.kubeconfig != nil {
		spec["kubeConfig"] = f.kubeconfig
	}
	if on := f.dependsOn(s, kind); len(on) > 0 {
		spec["dependsOn"] = on
	}
	s.take("timeout", "needs", "retry", "webhooks")
	s.lost(s.Locate(), "", "step %s: Flux holds no request for a webhook: an object that comes too early fails, and all is tried again later", s.Name)
	s.lose("when", "", "Flux has no condition: the object is always there")
	s.lose("outputs", "", "Flux hands no values from one object to another")
	s.lose("concurrency_group", "", "Flux installs what depends on nothing side by side")
	if s.Last {
		s.lost(s.Locate(), "", "step %s: Flux has nothing that runs at the end whatever happened", s.Name)
	}
	return spec
}

// dependsOn are the objects of one kind that the step needs: Flux knows no others.
func (f *fluxer) dependsOn(s *step, kind string) []any {
	var on []any
	for _, need := range s.Needs {
		name, is := strings.CutPrefix(f.made[need.Step], kind+"/")
		switch {
		case need.On != "" && need.On != plan.NeedSuccess:
			s.lost(s.at("needs"), "", "step %s: Flux cannot wait for the step %s to end with %s", s.Name, need.Step, need.On)
		case is:
			on = append(on, map[string]any{"name": name})
		case f.made[need.Step] != "":
			s.lost(s.at("needs"), "put the HelmRelease into a folder that a Kustomization applies with wait: true, and depend on that", "step %s: it cannot depend on the step %s: dependsOn is for objects of one kind", s.Name, need.Step)
		default:
			s.lost(s.at("needs"), "", "step %s: it does not wait for the step %s, which is left out", s.Name, need.Step)
		}
	}
	return on
}

// kustomization makes a Kustomization of an apply step.
func (f *fluxer) kustomization(p *plan.Plan, s *step) error {
	dir, err := s.manifests()
	if err != nil {
		return err
	}
	name := objectName(f.prefix, s.Name)
	repo, namespace := "flux-system", "flux-system"
	if f.Git.Repository != "" {
		repo = f.Git.Repository
		if before, after, is := strings.Cut(repo, "/"); is {
			namespace, repo = before, after
		}
	}
	spec := f.common(p, s, "Kustomization")
	spec["path"], spec["prune"], spec["wait"] = "./"+dir, s.Apply.Prune, s.Apply.Wait == plan.WaitReady
	spec["sourceRef"] = map[string]any{"kind": "GitRepository", "name": repo, "namespace": namespace}
	if s.Apply.OnImmutable == plan.RecreateImmutable {
		spec["force"] = true
	}
	if s.Apply.Namespace != "" {
		spec["targetNamespace"] = s.Apply.Namespace
	}
	s.take("apply.prune", "apply.wait", "apply.on_immutable", "apply.namespace")
	s.lose("apply.force_conflicts", "", "Flux always takes the fields over that its manifests have")
	o := f.object(fluxKustomize, "Kustomization", name, spec)
	o["metadata"].(map[string]any)["namespace"] = f.namespace
	f.add(o)
	f.made[s.Name] = "Kustomization/" + name
	f.first("commit what was written beside the objects to the Git repository that the GitRepository %s/%s reads", namespace, repo)
	if attempts := p.StepRetry(s.Step).InstallRetries; attempts > 1 {
		s.changed(s.at("retry"), "", "step %s: Flux tries again without end, and not %d times", s.Name, attempts)
	}
	return nil
}

// source adds an object once, and returns its name.
func (f *fluxer) source(kind, name string, spec map[string]any) string {
	if !f.sources[kind+"/"+name] {
		f.sources[kind+"/"+name] = true
		o := f.object(fluxSource, kind, name, spec)
		o["metadata"].(map[string]any)["namespace"] = f.namespace
		f.Objects = slices.Insert(f.Objects, 0, o)
	}
	return name
}
