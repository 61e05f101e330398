package export

import (
	"strconv"
)

// jobs makes a Job, or one for each cluster of a fleet.
func (x *exporter) jobs() error {
	if err := x.files(); err != nil {
		return err
	}
	x.losesOfPods()
	if x.Rollout == nil {
		x.add(x.job(x.name(), "", false))
		return nil
	}
	for i, w := range x.Rollout.Waves {
		at := "waves[" + strconv.Itoa(i) + "]"
		for _, c := range x.clusters(w.Name) {
			job := x.job(objectName(x.name(), c.(string)), c.(string), i > 0 || w.Approve)
			job["metadata"].(map[string]any)["labels"].(map[string]any)["kplan.dev/wave"] = w.Name
			x.add(job)
		}
		if i > 0 || w.Approve {
			x.lost(x.inFleet(at), "let them begin when the wave before is done: kubectl get jobs -l kplan.dev/wave="+w.Name+" -o name | xargs -I{} kubectl patch {} --type merge -p '{\"spec\":{\"suspend\":false}}'",
				"nothing begins the wave %s by itself: its Jobs are suspended", w.Name)
		}
		if len(x.clusters(w.Name)) > w.Parallel {
			x.lost(x.inFleet(at+".parallel"), "bound the pods by a ResourceQuota, or use the fleet's engine kubernetes", "all Jobs of the wave %s run at once", w.Name)
		}
		if w.MaxFailures > 0 {
			x.lost(x.inFleet(at+".max_failures"), "", "nobody counts how many Jobs of the wave %s fail", w.Name)
		}
		if w.SoakSeconds > 0 {
			x.lost(x.inFleet(at+".soak"), "", "nobody waits after the wave %s", w.Name)
		}
	}
	return nil
}

// job is one Job, for a cluster of the fleet or for the one that it is in.
func (x *exporter) job(name, cluster string, suspended bool) map[string]any {
	spec := map[string]any{
		"backoffLimit": 2, "podReplacementPolicy": "Failed", "suspend": suspended,
		"podFailurePolicy": map[string]any{"rules": []any{
			// A plan that failed is not tried again: its steps have retries of their own.
			map[string]any{"action": "FailJob", "onExitCodes": map[string]any{"containerName": "kplan", "operator": "In", "values": []any{1, 2, 4, 6}}},
			map[string]any{"action": "Ignore", "onPodConditions": []any{map[string]any{"type": "DisruptionTarget", "status": "True"}}},
		}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kplan.dev/plan": x.Plan.Metadata.Name}},
			"spec": map[string]any{
				"restartPolicy": "Never", "serviceAccountName": x.ServiceAccount, "terminationGracePeriodSeconds": x.grace(),
				"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 65532},
				"containers":      []any{x.container(cluster)}, "volumes": x.volumes(),
			},
		},
	}
	if cluster == "" && x.Rollout == nil {
		delete(spec, "suspend")
	}
	return x.object("batch/v1", "Job", name, spec)
}
