package export

import "fmt"

const tektonAPI = "tekton.dev/v1"

// maxMatrix is how many combinations a matrix of Tekton has by default
// (default-max-matrix-combinations-count).
const maxMatrix = 256

// tekton makes a Task, a Pipeline and a PipelineRun.
func (x *exporter) tekton() error {
	if err := x.files(); err != nil {
		return err
	}
	x.lostInPods()
	x.lostBudget()
	container := x.container("$(params.cluster)")
	container["computeResources"] = container["resources"]
	delete(container, "resources")
	spec := map[string]any{"steps": []any{container}, "volumes": x.volumes()}
	x.changed(x.inPlan(), "", "Tekton gives a pod that it stops 30 seconds, however long the plan's steps take")
	if x.Rollout != nil {
		spec["params"] = []any{map[string]any{"name": "cluster", "type": "string"}}
	}
	name := x.name()
	tasks := []any{map[string]any{"name": "run", "taskRef": map[string]any{"name": name}, "timeout": "0"}}
	if x.Rollout != nil {
		tasks = x.matrices(name)
	}
	pipeline := x.object(tektonAPI, "Pipeline", name, map[string]any{"tasks": tasks})
	run := x.object(tektonAPI, "PipelineRun", "", map[string]any{
		"pipelineRef": map[string]any{"name": name},
		"taskRunTemplate": map[string]any{
			"serviceAccountName": x.ServiceAccount,
			"podTemplate":        map[string]any{"securityContext": podSecurity()},
		},
		"timeouts": map[string]any{"pipeline": "0", "tasks": "0"},
	})
	metadata := run["metadata"].(map[string]any)
	delete(metadata, "name")
	metadata["generateName"] = name + "-"
	x.add(x.object(tektonAPI, "Task", name, spec), pipeline, run)
	x.first("apply all but the PipelineRun, and create that: kubectl create -f FILE (its name is made anew each time)")
	return nil
}

// matrices are the tasks of a fleet's waves.
func (x *exporter) matrices(name string) []any {
	var all []any
	var before []any
	for i, w := range x.Rollout.Waves {
		clusters := x.clusters(w.Name)
		var tasks []any
		for part := 0; len(clusters) > 0; part++ {
			n := min(len(clusters), maxMatrix)
			t := map[string]any{
				"name": x.unique("task", "", w.Name, fmt.Sprint(part+1)), "taskRef": map[string]any{"name": name}, "timeout": "0",
				"matrix": map[string]any{"params": []any{map[string]any{"name": "cluster", "value": clusters[:n]}}},
			}
			if len(before) > 0 {
				t["runAfter"] = before
			}
			tasks, clusters = append(tasks, t), clusters[n:]
		}
		if len(x.clusters(w.Name)) > w.Parallel {
			x.lost(x.inFleet("waves", i, "parallel"), "bound the pods by a ResourceQuota", "Tekton runs all clusters of the wave %s at once", w.Name)
		}
		if w.MaxFailures > 0 {
			x.lost(x.inFleet("waves", i, "max_failures"), "", "Tekton ends the run when a cluster of the wave %s has failed", w.Name)
		}
		if w.Approve {
			x.lost(x.inFleet("waves", i, "approve"), "split the fleet, and start the second run by hand", "Tekton waits for no approval of the wave %s", w.Name)
		}
		if w.SoakSeconds > 0 {
			x.lost(x.inFleet("waves", i, "soak"), "", "Tekton begins the wave after %s at once", w.Name)
		}
		all = append(all, tasks...)
		if len(tasks) > 0 {
			before = nil
			for _, t := range tasks {
				before = append(before, t.(map[string]any)["name"])
			}
		}
	}
	return all
}
