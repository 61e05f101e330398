package export

import (
	"strings"

	"github.com/kplan-dev/kplan/plan"
)

// release makes a HelmRelease of a helm step.
func (f *fluxer) release(p *plan.Plan, s *step) error {
	values, err := s.values()
	if err != nil {
		return err
	}
	name := objectName(f.prefix, s.Name)
	spec := f.common(p, s, "HelmRelease")
	spec["releaseName"] = release(s)
	if s.Helm.Namespace != "" {
		spec["targetNamespace"], spec["storageNamespace"] = s.Helm.Namespace, s.Helm.Namespace
	}
	if len(values) > 0 {
		spec["values"] = values
	}
	f.chart(s, spec)
	f.behaviour(p, s, spec)
	s.take("helm.release", "helm.namespace", "helm.chart", "helm.repo", "helm.version", "helm.engine", "helm.server_side")
	o := f.object(fluxHelm, "HelmRelease", name, spec)
	o["metadata"].(map[string]any)["namespace"] = f.namespace
	f.add(o)
	f.made[s.Name] = "HelmRelease/" + name
	return nil
}

// release is the name of a helm step's release.
func release(s *step) string {
	if s.Helm.Release != "" {
		return s.Helm.Release
	}
	return s.Name
}

// chart says where the chart comes from.
func (f *fluxer) chart(s *step, spec map[string]any) {
	h := s.Helm
	switch {
	case h.IsOCI():
		chart, tag := h.OCITag()
		ref := map[string]any{}
		switch {
		case h.Version != "" && strings.ContainsAny(h.Version, "^~*<>=| xX"):
			ref["semver"] = h.Version
		case h.Version != "" || tag != "":
			ref["tag"] = strings.ReplaceAll(h.Version+tag, "+", "_") // one of both
		default:
			ref["semver"] = "*"
		}
		if before, digest, pinned := strings.Cut(chart, "@"); pinned {
			chart, ref = before, map[string]any{"digest": digest}
		}
		source := map[string]any{
			"interval": "10m", "url": chart, "ref": ref,
			"layerSelector": map[string]any{"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"},
		}
		if h.PlainHTTP {
			source["insecure"] = true
		}
		if h.Verify != nil {
			s.lost(s.at("helm.verify"), "add spec.verify to the OCIRepository, with the key in a Secret", "step %s: the chart's signature is not asked for", s.Name)
		}
		s.take("helm.plain_http", "helm.verify")
		spec["chartRef"] = map[string]any{"kind": "OCIRepository", "name": f.source("OCIRepository", objectName(f.prefix, s.Name), source)}
		return
	case h.IsLocal():
		s.lost(s.at("helm.chart"), "commit the chart to the Git repository, and correct spec.chart.spec.chart", "step %s: the chart %s is not in the Git repository yet", s.Name, h.Chart)
		spec["chart"] = map[string]any{"spec": map[string]any{
			"chart": strings.TrimPrefix(h.Chart, "./"), "sourceRef": map[string]any{"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"},
		}}
		return
	}
	repo, chart := h.Repo, h.Chart
	if named, is := f.Plan.Repositories[repo]; is {
		if named.Username != "" || named.Password != "" {
			f.first("give Flux the login of the repository %s: a Secret, named in spec.secretRef of the HelmRepository", repo)
		}
		repo = named.URL
	} else if first, rest, is := strings.Cut(chart, "/"); is && repo == "" {
		if named, known := f.Plan.Repositories[first]; known {
			repo, chart = named.URL, rest
		}
	}
	source := f.source("HelmRepository", objectName(f.prefix, strings.TrimPrefix(strings.TrimPrefix(repo, "https://"), "http://")), map[string]any{"interval": "1h", "url": repo})
	inner := map[string]any{"chart": chart, "sourceRef": map[string]any{"kind": "HelmRepository", "name": source}}
	if h.Version != "" {
		inner["version"] = h.Version
	}
	spec["chart"] = map[string]any{"spec": inner}
}

// behaviour says how the release is installed and upgraded.
func (f *fluxer) behaviour(p *plan.Plan, s *step, spec map[string]any) {
	h := s.Helm
	install, upgrade := map[string]any{}, map[string]any{}
	both := func(field string, v any) { install[field], upgrade[field] = v, v }
	if h.CreateNamespace {
		install["createNamespace"] = true
	}
	policy := map[plan.CRDPolicy]string{plan.SkipCRDs: "Skip", plan.CreateCRDs: "Create", plan.UpgradeCRDs: "CreateReplace"}[h.CRDPolicy()]
	install["crds"] = policy
	if h.CRDPolicy() == plan.UpgradeCRDs {
		upgrade["crds"] = policy
	}
	switch h.Wait {
	case plan.WaitNone, plan.WaitHooks:
		both("disableWait", true)
	case plan.WaitReady, "":
		if !h.WaitForJobs {
			both("disableWaitForJobs", true) // Flux waits for them by itself
		}
	}
	if h.DisableHooks {
		both("disableHooks", true)
	}
	if !h.TakeOwnership {
		both("disableTakeOwnership", true)
	}
	if h.ReuseValues {
		upgrade["preserveValues"] = true
	}
	s.lose("helm.reset_then_reuse_values", "", "Flux takes the values of the object alone, or keeps all with preserveValues")
	f.retries(p, s, install, upgrade)
	spec["install"], spec["upgrade"] = install, upgrade
	spec["maxHistory"] = h.Kept()
	spec["driftDetection"] = map[string]any{"mode": map[plan.Drift]string{"": "enabled", plan.CorrectDrift: "enabled", plan.ReportDrift: "warn", plan.IgnoreDrift: "disabled"}[h.Drift]}
	if len(h.Labels) > 0 {
		s.lose("helm.labels", "", "Flux does not label the release's record")
	}
	s.take(
		"helm.create_namespace", "helm.crds", "helm.skip_crds", "helm.wait", "helm.wait_for_jobs", "helm.disable_hooks", "helm.take_ownership",
		"helm.reuse_values", "helm.reset_values", "helm.on_failure", "helm.max_history", "helm.drift",
	)
}

// retries says what happens when the release fails. Flux counts what comes after the first
// attempt, and undoes the failed one before.
func (f *fluxer) retries(p *plan.Plan, s *step, install, upgrade map[string]any) {
	attempts := p.StepRetry(s.Step).InstallRetries
	if attempts > 1 {
		install["remediation"] = map[string]any{"retries": attempts - 1}
		upgrade["remediation"] = map[string]any{"retries": attempts - 1}
		s.lost(s.at("retry"), "", "step %s: Flux uninstalls the release before each of the %d other attempts, and rolls an upgrade back: kplan goes on from what is there", s.Name, attempts-1)
	}
	switch s.Helm.OnFailure {
	case plan.RollbackRelease:
		upgrade["remediation"] = map[string]any{"retries": max(attempts-1, 0), "remediateLastFailure": true, "strategy": "rollback"}
	case plan.UninstallRelease:
		install["remediation"] = map[string]any{"retries": max(attempts-1, 0), "remediateLastFailure": true}
	case plan.KeepRelease, "":
	}
}
