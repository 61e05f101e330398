package export

import "github.com/kplan-dev/kplan/fleet"

// How a pod's process ends: with these codes the plan failed or was refused, and another
// attempt would not mend it; with those of signals somebody stopped it.
var (
	exitsOfFailure = []any{1, 2, 4, 6}
	exitsOfSignals = []any{129, 130, 143}
)

// jobs makes a Job, or an Indexed Job for each wave of a fleet.
func (x *exporter) jobs() error {
	if err := x.files(); err != nil {
		return err
	}
	x.lostInPods()
	x.lostBudget()
	if x.Rollout == nil {
		x.add(x.job(x.name(), map[string]any{"backoffLimit": 2}, "FailJob", x.container()))
		return nil
	}
	begun := false
	for i, w := range x.Rollout.Waves {
		n := len(x.clusters(w.Name))
		if n == 0 {
			continue
		}
		x.add(x.waveJob(w, n, begun || w.Approve))
		if begun || w.Approve {
			x.lost(x.inFleet("waves", i), "when the wave before is done: kubectl patch job -n "+x.Namespace+" "+x.waveName(w)+` --type merge -p '{"spec":{"suspend":false}}'`,
				"nothing lets the wave %s begin: its Job is suspended", w.Name)
		}
		begun = true
		x.lost(x.inFleet("waves", i), "kubectl patch job -n "+x.Namespace+" "+x.waveName(w)+` --type merge -p '{"spec":{"parallelism":0}}' ends what is at work, too`,
			"the clusters of the wave %s that did not begin yet begin however many have failed: max_failures is left out", w.Name)
		if w.SoakSeconds > 0 {
			x.lost(x.inFleet("waves", i, "soak"), "", "nobody waits after the wave %s", w.Name)
		}
	}
	return nil
}

func (x *exporter) waveName(w fleet.WaveInfo) string {
	return x.unique("Job", x.Namespace, x.name(), w.Name)
}

// waveJob is the Job of a wave: an index for each of its clusters.
func (x *exporter) waveJob(w fleet.WaveInfo, clusters int, suspended bool) map[string]any {
	job := x.job(x.waveName(w), map[string]any{
		"completionMode": "Indexed", "completions": clusters, "parallelism": min(clusters, max(w.Parallel, 1)),
		"backoffLimitPerIndex": 2, "backoffLimit": 1<<31 - 1, "suspend": suspended,
	}, "FailIndex", x.container("--wave", w.Name))
	job["metadata"].(map[string]any)["labels"].(map[string]any)["kplan.dev/wave"] = w.Name
	return job
}

// job is a Job with one container.
func (x *exporter) job(name string, spec map[string]any, failed string, container map[string]any) map[string]any {
	exits := func(action string, codes []any) map[string]any {
		return map[string]any{"action": action, "onExitCodes": map[string]any{"containerName": "kplan", "operator": "In", "values": codes}}
	}
	spec["podReplacementPolicy"] = "Failed"
	spec["podFailurePolicy"] = map[string]any{"rules": []any{
		// A plan that failed is not tried again: its steps have retries of their own.
		exits(failed, exitsOfFailure), exits("Ignore", exitsOfSignals),
		map[string]any{"action": "Ignore", "onPodConditions": []any{map[string]any{"type": "DisruptionTarget", "status": "True"}}},
	}}
	spec["template"] = map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"kplan.dev/plan": x.Plan.Metadata.Name}},
		"spec": map[string]any{
			"restartPolicy": "Never", "serviceAccountName": x.ServiceAccount, "terminationGracePeriodSeconds": x.grace(),
			"securityContext": podSecurity(), "containers": []any{container}, "volumes": x.volumes(),
		},
	}
	return x.object("batch/v1", "Job", name, spec)
}

// podSecurity is the security context of all pods: the image's nonroot.
func podSecurity() map[string]any { return map[string]any{"runAsNonRoot": true, "runAsUser": 65532} }
