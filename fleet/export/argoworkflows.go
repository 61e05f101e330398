package export

import (
	"strconv"
)

// argoWorkflows makes a Workflow.
func (x *exporter) argoWorkflows() error {
	if err := x.files(); err != nil {
		return err
	}
	x.losesOfPods()
	run := map[string]any{
		"name": "kplan", "container": x.container("{{inputs.parameters.cluster}}"), "volumes": x.volumes(),
		"metadata": map[string]any{"labels": map[string]any{"kplan.dev/plan": x.Plan.Metadata.Name}},
	}
	templates := []any{run}
	if x.Rollout == nil {
		templates = []any{map[string]any{"name": "run", "steps": []any{[]any{map[string]any{"name": "run", "template": "kplan"}}}}, run}
	} else {
		run["inputs"] = map[string]any{"parameters": []any{map[string]any{"name": "cluster"}}}
		templates = append(x.waves(), templates...)
	}
	delete(run["container"].(map[string]any), "name")
	workflow := x.object(argoAPI, "Workflow", "", map[string]any{
		"entrypoint": "run", "serviceAccountName": x.ServiceAccount, "templates": templates,
		"podSpecPatch":    `{"terminationGracePeriodSeconds": ` + strconv.Itoa(x.grace()) + `}`,
		"podGC":           map[string]any{"strategy": "OnWorkflowSuccess"},
		"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 65532},
	})
	metadata := workflow["metadata"].(map[string]any)
	delete(metadata, "name")
	metadata["generateName"] = x.name() + "-"
	x.add(workflow)
	x.first("create the Workflow, do not apply it: kubectl create -f - (its name is made anew each time)")
	x.first("let the ServiceAccount write results: Argo Workflows wants create and patch on workflowtaskresults.argoproj.io")
	return nil
}

// waves are the templates of a fleet: the DAG of the waves, and a template of pods for each.
func (x *exporter) waves() []any {
	var tasks, templates []any
	suspended := false
	after := ""
	for i, w := range x.Rollout.Waves {
		depends := after
		if w.Approve {
			name := "approve-" + w.Name
			tasks = append(tasks, task(name, "approve", depends, nil))
			depends, suspended = name, true
			x.first("approve the wave %s by resuming the workflow: argo resume NAME --node-field-selector displayName=%s", w.Name, name)
		}
		tasks = append(tasks, task(w.Name, "wave-"+w.Name, depends, nil))
		templates = append(templates, map[string]any{
			"name": "wave-" + w.Name, "parallelism": max(w.Parallel, 1), "failFast": false,
			"steps": []any{[]any{map[string]any{
				"name": "cluster", "template": "kplan", "withItems": x.clusters(w.Name),
				"arguments": map[string]any{"parameters": []any{map[string]any{"name": "cluster", "value": "{{item}}"}}},
				"continueOn": map[string]any{
					"failed": w.MaxFailures > 0,
				},
			}}},
		})
		if w.MaxFailures > 0 {
			x.lost(x.inFleet("waves["+strconv.Itoa(i)+"].max_failures"), "", "Argo Workflows counts no failures: the next wave begins however many clusters of %s fail", w.Name)
		} else {
			x.changed(x.inFleet("waves["+strconv.Itoa(i)+"]"), "", "the clusters of %s that did not begin yet begin though one has failed; the next wave does not", w.Name)
		}
		after = w.Name
		if w.SoakSeconds > 0 && i < len(x.Rollout.Waves)-1 {
			name := "soak-" + w.Name
			templates = append(templates, map[string]any{"name": name, "suspend": map[string]any{"duration": strconv.Itoa(int(w.SoakSeconds)) + "s"}})
			tasks = append(tasks, task(name, name, after, nil))
			after = name
		}
	}
	if suspended {
		templates = append(templates, map[string]any{"name": "approve", "suspend": map[string]any{}})
	}
	return append([]any{map[string]any{"name": "run", "dag": map[string]any{"tasks": tasks, "failFast": true}}}, templates...)
}

func task(name, template, depends string, more map[string]any) map[string]any {
	t := map[string]any{"name": name, "template": template}
	if depends != "" {
		t["depends"] = depends + ".Succeeded"
	}
	for k, v := range more {
		t[k] = v
	}
	return t
}
