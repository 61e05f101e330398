package export

import (
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
)

const (
	argoAPI  = "argoproj.io/v1alpha1"
	syncWave = "argocd.argoproj.io/sync-wave"
	// inCluster is how Argo CD calls the cluster that it is in.
	inCluster = "https://kubernetes.default.svc"
)

// argoCD makes Applications, or an ApplicationSet for each step over the fleet's clusters.
func (x *exporter) argoCD() error {
	x.lostPlan()
	if len(x.Plan.Ready) > 0 {
		x.lost(x.inPlan("ready"), "write a health check: resource.customizations.health of the ConfigMap argocd-cm", "Argo CD does not know when objects of these kinds are ready")
	}
	if x.Rollout != nil {
		return x.applicationSets()
	}
	x.first("put the Applications into a folder that an Application syncs: sync waves order what is in one Application")
	x.first("let Argo CD judge the health of Applications (resource.customizations.health.argoproj.io_Application): else a sync wave does not wait for the one before")
	waves := levels(x.Plan)
	return x.applications(x.Plan, "", func(s *step, app map[string]any) {
		o := x.object(argoAPI, "Application", x.unique("Application", x.Namespace, s.Name), app)
		o["metadata"].(map[string]any)["annotations"] = map[string]any{syncWave: strconv.Itoa(waves[s.Name])}
		x.add(o)
	})
}

// levels are how many steps come before each, one after another.
func levels(p *plan.Plan) map[string]int {
	all := map[string]int{}
	for i, level := range p.Graph().Levels() {
		for _, name := range level {
			all[name] = i
		}
	}
	return all
}

// applications makes the spec of an Application of each helm and apply step of a plan.
func (x *exporter) applications(p *plan.Plan, cluster string, made func(*step, map[string]any)) error {
	all, err := x.steps(p)
	if err != nil {
		return err
	}
	for _, s := range all {
		app, err := x.application(s, cluster)
		if err != nil {
			return err
		}
		s.end()
		if app != nil {
			made(s, app)
		}
	}
	return nil
}

// application is the spec of a step's Application; nil of a step that has none.
func (x *exporter) application(s *step, cluster string) (map[string]any, error) {
	var (
		source    map[string]any
		namespace string
		options   []any
		err       error
	)
	switch s.Kind() {
	case plan.KindHelm:
		source, options, err = x.helmSource(s)
		namespace = s.Helm.Namespace
	case plan.KindApply:
		source, err = x.folderSource(s, cluster)
		namespace = s.Apply.Namespace
	case plan.KindWait:
		s.leave("write a health check for its kind: a sync wave waits until all before is healthy", "Argo CD has no step that waits for %s", s.Wait.Resource)
	case plan.KindWebhook:
		s.leave("", "nothing waits until the webhooks answer, and no canary proves it")
	case plan.KindDelete:
		s.leave("delete it by hand, or by pruning", "Argo CD deletes what leaves its source, and nothing else")
	case plan.KindInclude:
	}
	if source == nil || err != nil {
		return nil, err
	}
	s.common()
	s.take("needs") // sync waves
	if namespace == "" {
		namespace = "default"
		s.changed(s.Locate(), "set the step's namespace", "step %s: it names no namespace: default is taken, and not that of the kubeconfig", s.Name)
	}
	return map[string]any{
		"project": "default", "source": source,
		"destination": map[string]any{"server": inCluster, "namespace": namespace},
		"syncPolicy":  s.syncPolicy(options),
	}, nil
}

// syncPolicy says how a step's Application is synced.
func (s *step) syncPolicy(options []any) map[string]any {
	policy := map[string]any{
		"syncOptions": append(options, "ServerSideApply=true"),
		"automated": map[string]any{
			"prune":    s.Apply == nil || s.Apply.Prune,
			"selfHeal": s.Helm == nil || s.Helm.Drift == "" || s.Helm.Drift == plan.CorrectDrift,
		},
	}
	if s.has("timeout") || s.plan.Defaults.Timeout != nil {
		s.lost(s.at("timeout"), "", "step %s: Argo CD bounds no sync by the %s that the step may take", s.Name, s.plan.StepTimeout(s.Step))
	}
	s.take("timeout")
	r := s.retries(true)
	if r.InstallRetries > 1 {
		policy["retry"] = map[string]any{"limit": r.InstallRetries - 1, "backoff": map[string]any{
			"duration": seconds(*r.RetryDelaySeconds), "factor": max(int(r.Multiplier), 1), "maxDuration": seconds(max(r.MaxDelaySeconds, *r.RetryDelaySeconds)),
		}}
		s.changed(s.atRetry("install_retries"), "", "step %s: install_retries %d is retry.limit %d, and each delay is waited out: kplan ends it when the webhook answers", s.Name, r.InstallRetries, r.InstallRetries-1)
	}
	return policy
}

func seconds(n float64) string {
	return strconv.Itoa(int(max(n, 1)+0.5)) + "s"
}

// folderSource is the source of an apply step's Application.
func (x *exporter) folderSource(s *step, cluster string) (map[string]any, error) {
	at, err := s.manifests(cluster)
	if err != nil {
		return nil, err
	}
	s.take("apply.prune", "apply.namespace", "apply.wait", "apply.force_conflicts")
	if s.Apply.OnImmutable == plan.FailImmutable {
		s.take("apply.on_immutable")
	}
	s.lose("apply.on_immutable", "annotate the object with argocd.argoproj.io/sync-options: Replace=true,Force=true", "an object with a change that it cannot take fails the sync")
	x.first("commit what was written beside the objects to %s", x.repository())
	return map[string]any{"repoURL": x.repository(), "targetRevision": x.revision(), "path": at.path}, nil
}

func (x *exporter) repository() string {
	if x.Git.Repository == "" {
		x.first("correct the address of the Git repository, https://git.example.com/REPOSITORY, in the objects")
		return "https://git.example.com/REPOSITORY"
	}
	return x.Git.Repository
}

func (x *exporter) revision() string {
	if x.Git.Revision != "" {
		return x.Git.Revision
	}
	return "HEAD"
}

// helmSource is the source of a helm step's Application, with its sync options.
func (x *exporter) helmSource(s *step) (map[string]any, []any, error) {
	h := s.Helm
	values, err := s.values()
	if err != nil {
		return nil, nil, err
	}
	helm := map[string]any{"releaseName": s.ReleaseName()}
	if len(values) > 0 {
		helm["valuesObject"] = values
	}
	if h.CRDPolicy() == plan.SkipCRDs {
		helm["skipCrds"] = true
	}
	if h.KubeVersion != "" {
		helm["kubeVersion"] = h.KubeVersion
	}
	if len(h.APIVersions) > 0 {
		helm["apiVersions"] = h.APIVersions
	}
	source := map[string]any{"helm": helm}
	x.chartSource(s, source)
	options := []any{}
	if h.CreateNamespace {
		options = append(options, "CreateNamespace=true")
	}
	crds := ""
	if h.CRDPolicy() == plan.CreateCRDs {
		crds = ", and brings CRDs of crds/ to what the chart has"
	}
	s.changed(s.Locate(), "", "step %s: Argo CD renders the chart and applies the objects itself%s: there is no release of Helm, and hooks become those of Argo CD", s.Name, crds)
	s.take(
		"helm.release", "helm.namespace", "helm.create_namespace", "helm.crds", "helm.skip_crds", "helm.kube_version", "helm.api_versions",
		"helm.drift", "helm.take_ownership", "helm.force_conflicts", "helm.reset_values",
	)
	if h.Wait != plan.WaitNone && h.Wait != plan.WaitHooks { // a sync wave waits for all before
		s.take("helm.wait")
	}
	if h.OnFailure == plan.KeepRelease {
		s.take("helm.on_failure")
	}
	for _, field := range []string{"labels", "description", "max_history", "engine", "server_side", "reuse_values", "reset_then_reuse_values"} {
		s.lose("helm."+field, "", "helm.%s is left out: there is no release of Helm", field)
	}
	s.lose("helm.wait", "", "what comes after waits until all is healthy")
	s.lose("helm.on_failure", "", "Argo CD leaves what failed as it is")
	return source, options, nil
}

// chartSource says where the chart comes from.
func (x *exporter) chartSource(s *step, source map[string]any) {
	c := s.chart()
	if c == nil {
		source["repoURL"], source["targetRevision"], source["path"] = x.repository(), x.revision(), strings.TrimPrefix(s.Helm.Chart, "./")
		s.lost(s.at("helm.chart"), "commit the chart there, and correct spec.source.path", "step %s: the chart %s is not in the Git repository yet", s.Name, s.Helm.Chart)
		return
	}
	source["repoURL"], source["chart"], source["targetRevision"] = strings.TrimPrefix(c.repository, "oci://"), c.name, "*"
	if c.version != "" {
		source["targetRevision"] = c.version
	}
	if c.digest != "" {
		s.lost(s.at("helm.chart"), "name a version", "step %s: Argo CD takes no digest of a chart: any version is taken", s.Name)
	}
	if c.oci {
		more := ""
		if s.plainHTTP(c.repository + "/" + c.name) {
			more = " and insecureOCIForceHttp"
		}
		x.first("tell Argo CD of the registry %s: a repository of the type helm with enableOCI%s", source["repoURL"], more)
	}
}
