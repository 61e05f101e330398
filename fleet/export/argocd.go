package export

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
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
	if x.Rollout == nil {
		x.first("put the Applications into a folder that an Application syncs: sync waves order what is in one Application")
		x.first("let Argo CD judge the health of Applications (resource.customizations.health.argoproj.io_Application): else a sync wave does not wait for the one before")
		return x.applications(x.Plan, func(s *step, app map[string]any) error {
			o := x.object(argoAPI, "Application", objectName(s.Name), app)
			o["metadata"].(map[string]any)["annotations"] = map[string]any{syncWave: strconv.Itoa(levels(x.Plan)[s.Name])}
			x.add(o)
			return nil
		})
	}
	return x.applicationSets()
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
func (x *exporter) applications(p *plan.Plan, made func(*step, map[string]any) error) error {
	all, err := x.steps(p)
	if err != nil {
		return err
	}
	for _, s := range all {
		app, err := x.application(p, s)
		if err != nil {
			return err
		}
		s.end()
		if app == nil {
			continue
		}
		if err := made(s, app); err != nil {
			return err
		}
	}
	return nil
}

// application is the spec of a step's Application; nil of a step that has none.
func (x *exporter) application(p *plan.Plan, s *step) (map[string]any, error) {
	s.take("timeout", "needs", "retry", "webhooks", "cluster")
	if s.Cluster != "" && (x.Rollout == nil || s.Cluster != x.Rollout.Target) {
		s.lost(s.at("cluster"), "correct spec.destination", "step %s: it works on the cluster %s of the plan, and the Application names another", s.Name, s.Cluster)
	}
	source, namespace, options, err := x.applicationSource(s)
	if source == nil || err != nil {
		return nil, err
	}
	s.lost(s.Locate(), "", "step %s: Argo CD holds no request for a webhook: an object that comes too early fails the sync, which is tried again", s.Name)
	s.lose("when", "", "Argo CD has no condition: the object is always there")
	s.lose("outputs", "", "Argo CD hands no values from one Application to another")
	s.lose("concurrency_group", "", "Argo CD syncs what is in one sync wave side by side")
	for _, n := range s.Needs {
		if n.On != "" && n.On != plan.NeedSuccess {
			s.lost(s.at("needs"), "", "step %s: Argo CD cannot wait for the step %s to end with %s", s.Name, n.Step, n.On)
		}
	}
	sync := map[string]any{"syncOptions": append(options, "ServerSideApply=true"), "automated": map[string]any{"prune": s.Apply == nil || s.Apply.Prune, "selfHeal": s.Helm == nil || s.Helm.Drift == "" || s.Helm.Drift == plan.CorrectDrift}}
	if r := p.StepRetry(s.Step); r.InstallRetries > 1 {
		sync["retry"] = map[string]any{"limit": r.InstallRetries - 1}
		if r.RetryDelaySeconds != nil {
			sync["retry"].(map[string]any)["backoff"] = map[string]any{"duration": fmt.Sprintf("%gs", *r.RetryDelaySeconds), "factor": 1}
		}
		s.changed(s.at("retry"), "", "step %s: the delay is waited out: kplan ends it when the webhook answers", s.Name)
	}
	s.changed(s.at("timeout"), "", "step %s: Argo CD bounds no sync by the %s that the step may take", s.Name, p.StepTimeout(s.Step))
	return map[string]any{
		"project": "default", "source": source,
		"destination": map[string]any{"server": inCluster, "namespace": namespace},
		"syncPolicy":  sync,
	}, nil
}

// applicationSource is the source of a step's Application with its namespace and sync
// options; nil of a step that Argo CD has nothing for.
func (x *exporter) applicationSource(s *step) (source map[string]any, namespace string, options []any, err error) {
	switch s.Kind() {
	case plan.KindHelm:
		source, options, err = x.helmSource(s)
		return source, s.Helm.Namespace, options, err
	case plan.KindApply:
		dir, err := s.manifests()
		if err != nil {
			return nil, "", nil, err
		}
		s.take("apply.prune", "apply.namespace", "apply.wait", "apply.force_conflicts")
		s.lose("apply.on_immutable", "annotate the object with argocd.argoproj.io/sync-options: Replace=true,Force=true", "an object with a change that it cannot take fails the sync")
		x.first("commit what was written beside the objects to %s", x.repository())
		return map[string]any{"repoURL": x.repository(), "targetRevision": x.revision(), "path": dir}, s.Apply.Namespace, []any{}, nil
	case plan.KindWait:
		s.take("wait.resource", "wait.namespace", "wait.selector", "wait.for")
		s.lost(s.Locate(), "write a health check for its kind: a sync wave waits until all before is healthy", "step %s: Argo CD has no step that waits for %s", s.Name, s.Wait.Resource)
	case plan.KindWebhook:
		s.take("webhook.release", "webhook.configuration", "webhook.service", "webhook.selector", "webhook.files", "webhook.namespace", "webhook.canary", "webhook.stable")
		s.lost(s.Locate(), "", "step %s: nothing waits until the webhooks answer, and no canary proves it", s.Name)
	case plan.KindDelete:
		s.take("delete.files", "delete.objects", "delete.resource", "delete.release", "delete.selector", "delete.namespace", "delete.kustomize", "delete.delete_crds", "delete.evaluate")
		s.lost(s.Locate(), "delete it by hand, or by pruning", "step %s: Argo CD deletes what leaves its source, and nothing else", s.Name)
	case plan.KindInclude:
	}
	return nil, "", nil, nil
}

func (x *exporter) repository() string {
	if x.Git.Repository != "" {
		return x.Git.Repository
	}
	return "https://git.example.com/REPOSITORY"
}

func (x *exporter) revision() string {
	if x.Git.Revision != "" {
		return x.Git.Revision
	}
	return "HEAD"
}

// helmSource is the source of a helm step's Application.
func (x *exporter) helmSource(s *step) (map[string]any, []any, error) {
	h := s.Helm
	values, err := s.values()
	if err != nil {
		return nil, nil, err
	}
	helm := map[string]any{"releaseName": release(s)}
	if len(values) > 0 {
		helm["valuesObject"] = values
	}
	if h.CRDPolicy() == plan.SkipCRDs {
		helm["skipCrds"] = true
	}
	source := map[string]any{"helm": helm, "targetRevision": "*"}
	if h.Version != "" {
		source["targetRevision"] = h.Version
	}
	switch {
	case h.IsOCI():
		chart, tag := h.OCITag()
		i := strings.LastIndexByte(chart, '/')
		source["repoURL"], source["chart"] = strings.TrimPrefix(chart[:i], "oci://"), chart[i+1:]
		if tag != "" {
			source["targetRevision"] = tag
		}
		x.first("tell Argo CD of the registry %s as a repository of the type helm with enableOCI", source["repoURL"])
	case h.IsLocal():
		delete(source, "targetRevision")
		source["repoURL"], source["targetRevision"], source["path"] = x.repository(), x.revision(), strings.TrimPrefix(h.Chart, "./")
		s.lost(s.at("helm.chart"), "commit the chart there, and correct spec.source.path", "step %s: the chart %s is not in the Git repository yet", s.Name, h.Chart)
	default:
		repo, chart := h.Repo, h.Chart
		if named, is := x.Plan.Repositories[repo]; is {
			repo = named.URL
		} else if first, rest, is := strings.Cut(chart, "/"); is && repo == "" {
			repo, chart = x.Plan.Repositories[first].URL, rest
		}
		source["repoURL"], source["chart"] = repo, chart
	}
	options := []any{}
	if h.CreateNamespace {
		options = append(options, "CreateNamespace=true")
	}
	s.changed(s.Locate(), "", "step %s: Argo CD renders the chart and applies the objects itself: there is no release of Helm, and hooks become those of Argo CD", s.Name)
	s.take(
		"helm.release", "helm.chart", "helm.repo", "helm.version", "helm.namespace", "helm.create_namespace", "helm.crds", "helm.skip_crds", "helm.plain_http",
		"helm.engine", "helm.server_side", "helm.drift", "helm.wait", "helm.take_ownership", "helm.max_history", "helm.description", "helm.reset_values",
	)
	s.lose("helm.on_failure", "", "Argo CD leaves what failed as it is")
	return source, options, nil
}

// setCluster is one cluster as an ApplicationSet's list generator has it.
type setElement struct {
	cluster fleet.Cluster
	app     map[string]any
}

// applicationSets makes an ApplicationSet of each step over the fleet's clusters. What
// differs from cluster to cluster are elements of its list generator.
func (x *exporter) applicationSets() error {
	var order []string
	byStep := map[string][]setElement{}
	for _, c := range x.Rollout.Clusters {
		p, err := x.For(c)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		if c.Source.Kind != "argocd" {
			x.first("tell Argo CD of the clusters that are not its own yet: argocd cluster add")
		}
		err = x.applications(p, func(s *step, app map[string]any) error {
			if byStep[s.Name] == nil {
				order = append(order, s.Name)
			}
			byStep[s.Name] = append(byStep[s.Name], setElement{c, app})
			return nil
		})
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	x.first("let Argo CD's controller of ApplicationSets roll out progressively (--enable-progressive-syncs)")
	x.lost(x.inFleet("waves"), "stop a rollout by deleting the strategy of the ApplicationSet", "max_failures, soak, approve and budgets are left out: Argo CD goes on when all Applications of a wave are healthy")
	if len(order) > 1 {
		x.lost(x.inFleet("plan"), "", "the ApplicationSets of the steps do not wait for each other: order among the steps of one cluster is left out")
	}
	for _, name := range order {
		set, err := x.applicationSet(name, byStep[name])
		if err != nil {
			return err
		}
		x.add(x.object(argoAPI, "ApplicationSet", objectName(x.Rollout.Fleet, name), set))
	}
	return nil
}

// applicationSet is the spec of one ApplicationSet.
func (x *exporter) applicationSet(name string, all []setElement) (map[string]any, error) {
	var elements []any
	for _, e := range all {
		values, err := json.Marshal(valuesOf(e.app))
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", name, err)
		}
		server := e.cluster.Server
		if server == "" {
			server = inCluster
			x.lost(x.inFleet("inventory"), "export without --offline, or correct it in the elements", "the address of the cluster %s is not known", e.cluster.Name)
		}
		namespace, _ := e.app["destination"].(map[string]any)["namespace"].(string)
		elements = append(elements, map[string]any{
			"name": objectName(e.cluster.Name), "server": server, "wave": e.cluster.Wave, "namespace": namespace, "values": string(values),
		})
	}
	app := all[0].app
	app["destination"] = map[string]any{"server": "{{ .server }}", "namespace": "{{ .namespace }}"}
	if helm, is := app["source"].(map[string]any)["helm"].(map[string]any); is && helm["valuesObject"] != nil {
		delete(helm, "valuesObject")
		helm["values"] = "{{ .values }}"
	}
	var steps []any
	for _, w := range x.Rollout.Waves {
		steps = append(steps, map[string]any{
			"matchExpressions": []any{map[string]any{"key": "kplan.dev/wave", "operator": "In", "values": []any{w.Name}}},
			"maxUpdate":        max(w.Parallel, 1),
		})
	}
	return map[string]any{
		"goTemplate": true, "goTemplateOptions": []any{"missingkey=error"},
		"generators": []any{map[string]any{"list": map[string]any{"elements": elements}}},
		"strategy":   map[string]any{"type": "RollingSync", "rollingSync": map[string]any{"steps": steps}},
		"template": map[string]any{
			"metadata": map[string]any{
				"name":   objectName(name) + "-{{ .name }}",
				"labels": map[string]any{"kplan.dev/wave": "{{ .wave }}", "kplan.dev/fleet": x.Rollout.Fleet},
			},
			"spec": app,
		},
	}, nil
}

func valuesOf(app map[string]any) any {
	helm, _ := app["source"].(map[string]any)["helm"].(map[string]any)
	if helm["valuesObject"] == nil {
		return map[string]any{}
	}
	return helm["valuesObject"]
}
