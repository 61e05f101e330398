package load

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
)

// checkClusters looks at the plan's clusters and at who names them.
func (v validator) checkClusters() {
	for _, name := range slices.Sorted(maps.Keys(v.plan.Clusters)) {
		cluster, at := v.plan.Clusters[name], path{"clusters", name}
		if !names.IsLabel(name) {
			v.ReportField(fault{At: at, Hint: labelHint}, "%q cannot be the name of a cluster", document.Cut(name, 80))
		}
		for _, field := range []string{"context", "kubeconfig", "namespace"} {
			v.checkText(at.Key(field), field, "remove it")
		}
		v.checkLabel(cluster.Namespace, at.Key("namespace"))
		ref := cluster.KubeconfigSecret
		if ref == nil {
			continue
		}
		at = at.Key("kubeconfig_secret")
		if cluster.Kubeconfig != "" {
			v.ReportField(fault{At: at, Hint: "keep one of them"}, "the cluster %q has both kubeconfig and kubeconfig_secret", name)
		}
		v.checkClusterName(ref.Cluster, at.Key("cluster"))
		v.checkLabel(ref.Namespace, at.Key("namespace"))
		if ref.Name != "" && !names.IsSubdomain(ref.Name, names.MaxSubdomain) {
			v.Report(fault{At: at.Key("name")}, "%q cannot be the name of a Secret", document.Cut(ref.Name, 80))
		}
		if ref.Key != "" && !names.IsDataKey(ref.Key) {
			v.Report(fault{At: at.Key("key")}, "%q cannot be the key of a Secret", document.Cut(ref.Key, 80))
		}
	}
	v.checkClusterName(v.plan.Defaults.Cluster, path{"defaults", "cluster"})
	v.checkClusterCycles()
}

// checkClusterName looks whether the plan has a cluster.
func (v validator) checkClusterName(name string, at path) {
	v.checkText(at, "the name of the cluster", "remove it to mean the default")
	if name != "" {
		v.hasCluster(name, at)
	}
}

// hasCluster reports a cluster that the plan does not have.
func (p *pass) hasCluster(name string, at path) bool {
	clusters, ok := p.tree["clusters"].(map[string]any)
	if _, known := clusters[name]; known || !ok && p.tree["clusters"] != nil {
		return true
	}
	hint := cmp.Or(p.near.Hint(name, slices.Sorted(maps.Keys(clusters))), "declare it under clusters")
	p.Report(fault{Code: document.CodeUnknownName, At: at, Hint: hint}, "there is no cluster %q", document.Cut(name, 80))
	return false
}

// checkClusterCycles reports clusters whose kubeconfig is read from themselves,
// directly or over others.
func (v validator) checkClusterCycles() {
	done := map[string]bool{}
	for _, first := range slices.Sorted(maps.Keys(v.plan.Clusters)) {
		var chain []string
		for name := first; !done[name]; {
			done[name] = true
			chain = append(chain, name)
			ref := v.plan.Clusters[name].KubeconfigSecret
			if ref == nil {
				break
			}
			next := cmp.Or(ref.Cluster, v.plan.Defaults.Cluster)
			if i := slices.Index(chain, next); i >= 0 {
				at := path{"clusters", name, "kubeconfig_secret"}
				v.ReportField(fault{Code: document.CodeCycle, At: at, Hint: "let one of them be reached by a context or a kubeconfig file"}, "cycle: each cluster's kubeconfig is in the next one: %s", strings.Join(append(chain[i:], next), " -> "))
				break
			}
			if _, ok := v.plan.Clusters[next]; !ok {
				break
			}
			name = next
		}
	}
}
