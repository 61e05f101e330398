package export

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
)

// setElement is one cluster as an ApplicationSet's list generator has it.
type setElement struct {
	cluster fleet.Cluster
	app     map[string]any
}

// applicationSets makes an ApplicationSet of each step over the fleet's clusters. What
// differs from cluster to cluster is in the elements of its list generator.
func (x *exporter) applicationSets() error {
	var order []string
	byStep := map[string][]setElement{}
	for _, c := range x.Rollout.Clusters {
		p, err := x.For(c)
		if err == nil {
			err = x.applications(p, c.Name, func(s *step, app map[string]any) {
				if byStep[s.Name] == nil {
					order = append(order, s.Name)
				}
				byStep[s.Name] = append(byStep[s.Name], setElement{c, app})
			})
		}
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		if c.Source.Kind != "argocd" {
			x.first("tell Argo CD of the clusters that are not its own yet: argocd cluster add")
		}
	}
	x.first("let Argo CD's controller of ApplicationSets roll out progressively (--enable-progressive-syncs)")
	x.lostWaves()
	x.lostBudget()
	x.changed(x.inFleet("waves"), "", "RollingSync switches the automatic sync of the Applications off, and starts each sync itself: what somebody changes is put right by the next one, wave by wave")
	if len(order) > 1 {
		x.lost(x.inFleet("plan"), "", "the ApplicationSets of the steps do not wait for each other: order among the steps of one cluster is left out")
	}
	for _, name := range order {
		set, err := x.applicationSet(name, byStep[name])
		if err != nil {
			return err
		}
		x.add(x.object(argoAPI, "ApplicationSet", x.unique("ApplicationSet", x.Namespace, x.Rollout.Fleet, name), set))
	}
	return nil
}

// lostWaves tells what RollingSync has nothing for.
func (x *exporter) lostWaves() {
	const hint = "stop a rollout by deleting the strategy of the ApplicationSet"
	for i, w := range x.Rollout.Waves {
		x.lost(x.inFleet("waves", i), hint, "Argo CD goes on when all Applications of the wave %s are healthy, and stops for ever when one is not: max_failures is left out", w.Name)
		if w.SoakSeconds > 0 {
			x.lost(x.inFleet("waves", i, "soak"), "", "Argo CD does not wait after the wave %s", w.Name)
		}
		if w.Approve {
			x.lost(x.inFleet("waves", i, "approve"), "set maxUpdate of the wave's step to 0, and sync its Applications by hand", "Argo CD waits for no approval of the wave %s", w.Name)
		}
	}
}

// applicationSet is the spec of one ApplicationSet.
func (x *exporter) applicationSet(name string, all []setElement) (map[string]any, error) {
	var (
		elements []any
		patches  []string
	)
	for _, e := range all {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"source": e.app["source"], "syncPolicy": e.app["syncPolicy"]}})
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", name, err)
		}
		patches = append(patches, string(patch))
		server := e.cluster.Server
		if server == "" {
			server = inCluster
			x.lost(x.inFleet("inventory"), "correct it in the elements", "the address of the cluster %s is not known", e.cluster.Name)
		}
		elements = append(elements, map[string]any{
			"app": x.unique("Application", x.Namespace, name, e.cluster.Name), "server": server, "wave": e.cluster.Wave,
			"namespace": e.app["destination"].(map[string]any)["namespace"],
		})
	}
	app := map[string]any{
		"project": "default", "source": all[0].app["source"], "syncPolicy": all[0].app["syncPolicy"],
		"destination": map[string]any{"server": "{{ .server }}", "namespace": "{{ .namespace }}"},
	}
	set := map[string]any{
		"goTemplate": true, "goTemplateOptions": []any{"missingkey=error"},
		"generators": []any{map[string]any{"list": map[string]any{"elements": elements}}},
		"strategy":   map[string]any{"type": "RollingSync", "rollingSync": map[string]any{"steps": x.rollingSteps()}},
		"template": map[string]any{
			"metadata": map[string]any{
				"name":   "{{ .app }}",
				"labels": map[string]any{"kplan.dev/wave": "{{ .wave }}", "kplan.dev/fleet": x.Rollout.Fleet},
			},
			"spec": app,
		},
	}
	if !allSame(patches) || hasTemplate(patches[0]) {
		for i, p := range patches {
			elements[i].(map[string]any)["patch"] = p
		}
		set["templatePatch"] = "{{ .patch }}"
		app["source"] = map[string]any{"repoURL": all[0].app["source"].(map[string]any)["repoURL"]}
		delete(app, "syncPolicy")
	}
	return set, nil
}

// rollingSteps are the waves as RollingSync has them.
func (x *exporter) rollingSteps() []any {
	var steps []any
	for _, w := range x.Rollout.Waves {
		steps = append(steps, map[string]any{
			"matchExpressions": []any{map[string]any{"key": "kplan.dev/wave", "operator": "In", "values": []any{w.Name}}},
			"maxUpdate":        max(w.Parallel, 1),
		})
	}
	return steps
}

func allSame(texts []string) bool {
	for _, t := range texts {
		if t != texts[0] {
			return false
		}
	}
	return true
}

// hasTemplate reports whether a text would be evaluated in the template of a set: what
// elements have is not.
func hasTemplate(text string) bool { return strings.Contains(text, "{{") }
