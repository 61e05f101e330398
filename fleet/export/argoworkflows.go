package export

import (
	"fmt"
	"strconv"

	"github.com/kplan-dev/kplan/fleet"
)

// argoWorkflows makes a Workflow.
func (x *exporter) argoWorkflows() error {
	if err := x.files(); err != nil {
		return err
	}
	x.lostInPods()
	x.lostBudget()
	run := map[string]any{
		"name": "kplan", "container": x.container("{{inputs.parameters.cluster}}"), "volumes": x.volumes(),
		"metadata": map[string]any{"labels": map[string]any{"kplan.dev/plan": x.Plan.Metadata.Name}},
	}
	delete(run["container"].(map[string]any), "name")
	templates, entry := []any{run}, "kplan"
	if x.Rollout != nil {
		run["inputs"] = map[string]any{"parameters": []any{map[string]any{"name": "cluster"}}}
		templates, entry = append(x.waves(), run), "fleet"
	}
	workflow := x.object(argoAPI, "Workflow", "", map[string]any{
		"entrypoint": entry, "serviceAccountName": x.ServiceAccount, "templates": templates,
		"podSpecPatch":    fmt.Sprintf(`{"terminationGracePeriodSeconds": %d}`, x.grace()),
		"podGC":           map[string]any{"strategy": "OnWorkflowSuccess"},
		"securityContext": podSecurity(),
	})
	metadata := workflow["metadata"].(map[string]any)
	delete(metadata, "name")
	metadata["generateName"] = x.name() + "-"
	x.add(workflow)
	x.first("create the Workflow, do not apply it: kubectl create -f FILE (its name is made anew each time)")
	x.first("let the ServiceAccount write results: Argo Workflows wants create and patch on workflowtaskresults.argoproj.io")
	return nil
}

// waves are the templates of a fleet: the DAG of the waves, and a template of pods for each.
func (x *exporter) waves() []any {
	var tasks, templates []any
	approvals := false
	after, soak := "", ""
	for i, w := range x.Rollout.Waves {
		if len(x.clusters(w.Name)) == 0 {
			continue // the next one begins at once
		}
		if soak != "" {
			tasks = append(tasks, task("soak-"+soak, "soak-"+soak, after))
			after = "soak-" + soak
		}
		if w.Approve {
			name := "approve-" + w.Name
			tasks = append(tasks, task(name, "approve", after))
			after, approvals = name, true
			x.first("approve the wave %s by resuming the workflow: argo resume NAME --node-field-selector displayName=%s", w.Name, name)
		}
		tasks = append(tasks, task("wave-"+w.Name, "wave-"+w.Name, after))
		templates = append(templates, x.wave(w))
		if w.MaxFailures > 0 {
			x.lost(x.inFleet("waves", i, "max_failures"), "", "Argo Workflows counts no failures: the next wave begins however many clusters of %s fail", w.Name)
		} else {
			x.changed(x.inFleet("waves", i), "", "the clusters of %s that did not begin yet begin though one has failed; the next wave does not", w.Name)
		}
		after, soak = "wave-"+w.Name, ""
		if w.SoakSeconds > 0 {
			soak = w.Name
			templates = append(templates, map[string]any{"name": "soak-" + w.Name, "suspend": map[string]any{"duration": strconv.Itoa(int(w.SoakSeconds+0.5)) + "s"}})
		}
	}
	if approvals {
		templates = append(templates, map[string]any{"name": "approve", "suspend": map[string]any{}})
	}
	return append([]any{map[string]any{"name": "fleet", "dag": map[string]any{"tasks": tasks, "failFast": true}}}, templates...)
}

// wave is the template of a wave's pods.
func (x *exporter) wave(w fleet.WaveInfo) map[string]any {
	pod := map[string]any{
		"name": "cluster", "template": "kplan", "withItems": x.clusters(w.Name),
		"arguments": map[string]any{"parameters": []any{map[string]any{"name": "cluster", "value": "{{item}}"}}},
	}
	if w.MaxFailures > 0 {
		pod["continueOn"] = map[string]any{"failed": true}
	}
	return map[string]any{"name": "wave-" + w.Name, "parallelism": max(w.Parallel, 1), "failFast": false, "steps": []any{[]any{pod}}}
}

// task is a task of the DAG, which begins when another one has succeeded.
func task(name, template, after string) map[string]any {
	t := map[string]any{"name": name, "template": template}
	if after != "" {
		t["depends"] = after + ".Succeeded"
	}
	return t
}
