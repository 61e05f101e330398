package export

import (
	"cmp"
	"maps"
	"strings"

	"github.com/kplan-dev/kplan/plan"
)

// chartLayer is the media type of a chart in a registry.
const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// release makes a HelmRelease of a helm step.
func (f *fluxer) release(s *step) error {
	values, err := s.values()
	if err != nil {
		return err
	}
	spec := map[string]any{}
	if err := f.chart(s, spec); err != nil {
		return err
	}
	o := f.object(fluxHelm, "HelmRelease", s)
	maps.Copy(o.spec, spec)
	o.spec["releaseName"] = s.ReleaseName()
	namespace := cmp.Or(s.Helm.Namespace, f.into)
	if namespace == "" {
		namespace = "default"
		s.changed(s.Locate(), "set helm.namespace", "step %s: it names no namespace: default is taken, and not that of the kubeconfig", s.Name)
	}
	o.spec["targetNamespace"], o.spec["storageNamespace"] = namespace, namespace
	if len(values) > 0 {
		o.spec["values"] = values
	}
	f.behaviour(s, o.spec)
	s.take("helm.release", "helm.namespace")
	return nil
}

// chart says where the chart comes from.
func (f *fluxer) chart(s *step, spec map[string]any) error {
	c := s.chart()
	switch {
	case c == nil:
		s.lost(s.at("helm.chart"), "commit the chart to the Git repository, and correct spec.chart.spec.chart", "step %s: the chart %s is not in the Git repository yet", s.Name, s.Helm.Chart)
		repo, namespace := "flux-system", "flux-system"
		if f.Git.Repository != "" {
			repo, namespace = f.Git.Repository, f.namespace
			if before, after, is := strings.Cut(repo, "/"); is {
				namespace, repo = before, after
			}
		}
		spec["chart"] = map[string]any{"spec": map[string]any{
			"chart": strings.TrimPrefix(s.Helm.Chart, "./"), "sourceRef": map[string]any{"kind": "GitRepository", "name": repo, "namespace": namespace},
		}}
		return nil
	case c.oci:
		name, err := f.source("OCIRepository", f.ociRepository(s, c), f.words(s)...)
		spec["chartRef"] = map[string]any{"kind": "OCIRepository", "name": name}
		return err
	}
	host := strings.TrimPrefix(strings.TrimPrefix(c.repository, "https://"), "http://")
	name, err := f.source("HelmRepository", map[string]any{"interval": "1h", "url": c.repository}, host)
	inner := map[string]any{"chart": c.name, "sourceRef": map[string]any{"kind": "HelmRepository", "name": name}}
	if c.version != "" {
		inner["version"] = c.version
	}
	spec["chart"] = map[string]any{"spec": inner}
	return err
}

// ociRepository is the spec of the source of a chart in a registry.
func (f *fluxer) ociRepository(s *step, c *chart) map[string]any {
	address := c.repository + "/" + c.name
	ref := map[string]any{}
	switch {
	case c.digest != "":
		ref["digest"] = c.digest
	case c.version == "":
		ref["semver"] = "*"
	case isConstraint(c.version):
		ref["semver"] = c.version
	default:
		ref["tag"] = strings.ReplaceAll(c.version, "+", "_") // tags have no plus
	}
	source := map[string]any{
		"interval": "10m", "url": address, "ref": ref,
		"layerSelector": map[string]any{"mediaType": chartLayer, "operation": "copy"},
	}
	if s.plainHTTP(address) {
		source["insecure"] = true
	}
	s.lose("helm.verify", "add spec.verify to the OCIRepository, with the key in a Secret", "the chart's signature is not asked for")
	return source
}

// behaviour says how the release is installed and upgraded.
func (f *fluxer) behaviour(s *step, spec map[string]any) {
	h := s.Helm
	install, upgrade := map[string]any{}, map[string]any{}
	both := func(field string) { install[field], upgrade[field] = true, true }
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
		both("disableWait")
	case plan.WaitReady, "":
		if !h.WaitForJobs {
			both("disableWaitForJobs") // Flux waits for them by itself
		}
	}
	if h.DisableHooks {
		both("disableHooks")
	}
	if !h.TakeOwnership {
		both("disableTakeOwnership")
	}
	if h.ReuseValues {
		upgrade["preserveValues"] = true
	}
	switch h.ServerSide {
	case plan.ServerSideTrue:
		install["serverSideApply"], upgrade["serverSideApply"] = true, "enabled"
	case plan.ServerSideFalse:
		install["serverSideApply"], upgrade["serverSideApply"] = false, "disabled"
	case plan.ServerSideAuto, "":
	}
	if h.ServerSide != "" {
		s.changed(s.at("helm.server_side"), "", "step %s: helm-controller 1.4.0 does not know serverSideApply, and 1.6.0 does", s.Name)
	}
	if h.Engine != "" {
		s.changed(s.at("helm.engine"), "", "step %s: the release is made by the version of Helm that Flux has", s.Name)
	}
	s.lose("helm.reset_then_reuse_values", "", "Flux takes the values of the object alone, or keeps all with preserveValues")
	f.failure(s, install, upgrade)
	spec["install"], spec["upgrade"] = install, upgrade
	spec["maxHistory"] = h.Kept()
	spec["driftDetection"] = map[string]any{"mode": map[plan.Drift]string{"": "enabled", plan.CorrectDrift: "enabled", plan.ReportDrift: "warn", plan.IgnoreDrift: "disabled"}[h.Drift]}
	s.lose("helm.labels", "", "Flux does not label the release's record")
	s.take(
		"helm.create_namespace", "helm.crds", "helm.skip_crds", "helm.wait", "helm.wait_for_jobs", "helm.disable_hooks", "helm.take_ownership",
		"helm.reuse_values", "helm.reset_values", "helm.on_failure", "helm.max_history", "helm.drift", "helm.engine", "helm.server_side",
	)
}

// failure says what happens when the release fails. With keep Flux tries again from what is
// there, as kplan does; otherwise it counts what comes after the first attempt, and undoes the
// failed one before.
func (f *fluxer) failure(s *step, install, upgrade map[string]any) {
	r := s.retries(false)
	attempts := max(r.InstallRetries, 1)
	switch s.Helm.OnFailure {
	case plan.RollbackRelease:
		upgrade["remediation"] = map[string]any{"retries": attempts - 1, "remediateLastFailure": true, "strategy": "rollback"}
		install["remediation"] = map[string]any{"retries": attempts - 1}
	case plan.UninstallRelease:
		install["remediation"] = map[string]any{"retries": attempts - 1, "remediateLastFailure": true}
		upgrade["remediation"] = map[string]any{"retries": attempts - 1}
	case plan.KeepRelease, "":
		if attempts > 1 {
			strategy := map[string]any{"name": "RetryOnFailure", "retryInterval": interval(r)}
			install["strategy"], upgrade["strategy"] = strategy, strategy
			s.changed(s.atRetry("install_retries"), "", "step %s: Flux tries again without end, and not %d times (by RetryOnFailure, which helm-controller 1.4.0 has)", s.Name, attempts)
		}
		return
	}
	if attempts > 1 {
		s.lost(s.atRetry("install_retries"), "", "step %s: install_retries %d is remediation.retries %d, at once and not after %s: Flux uninstalls what failed to install before each, and rolls an upgrade back: kplan goes on from what is there", s.Name, attempts, attempts-1, interval(r))
	}
}
