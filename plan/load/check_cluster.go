package load

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
)

// checkClusters looks at the plan's clusters and at who names them.
func (c *checker) checkClusters() {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Clusters)) {
		cluster, at := c.plan.Clusters[name], document.Path{"clusters", name}
		if len(name) > 63 || !dnsLabel.MatchString(name) {
			c.ReportField(document.Fault{At: at, Hint: labelHint}, "%q cannot be the name of a cluster", document.Cut(name, 80))
		}
		for _, field := range []string{"context", "kubeconfig", "namespace"} {
			if c.isEmptyText(at.Key(field)) {
				c.Report(document.Fault{At: at.Key(field), Hint: "remove it"}, "%s is empty", field)
			}
		}
		c.checkLabel(cluster.Namespace, at.Key("namespace"))
		ref := cluster.KubeconfigSecret
		if ref == nil {
			continue
		}
		at = at.Key("kubeconfig_secret")
		if cluster.Kubeconfig != "" {
			c.ReportField(document.Fault{At: at, Hint: "keep one of them"}, "the cluster %q has both kubeconfig and kubeconfig_secret", name)
		}
		c.checkClusterName(ref.Cluster, at.Key("cluster"))
		c.checkLabel(ref.Namespace, at.Key("namespace"))
		if ref.Name != "" && (len(ref.Name) > 253 || !dnsSubdomain.MatchString(ref.Name)) {
			c.Report(document.Fault{At: at.Key("name")}, "%q cannot be the name of a Secret", document.Cut(ref.Name, 80))
		}
		if ref.Key != "" && !dataKey.MatchString(ref.Key) {
			c.Report(document.Fault{At: at.Key("key")}, "%q cannot be the key of a Secret", document.Cut(ref.Key, 80))
		}
	}
	c.checkClusterName(c.plan.Defaults.Cluster, document.Path{"defaults", "cluster"})
	c.checkClusterCycles()
}

// checkClusterName looks whether the plan has a cluster.
func (c *checker) checkClusterName(name string, at document.Path) {
	if name == "" {
		if c.isEmptyText(at) {
			c.Report(document.Fault{At: at, Hint: "remove it to mean the default"}, "the name of the cluster is empty")
		}
		return
	}
	clusters, ok := c.tree["clusters"].(map[string]any)
	if _, known := clusters[name]; known || !ok && c.tree["clusters"] != nil {
		return
	}
	hint := cmp.Or(c.near.Hint(name, slices.Sorted(maps.Keys(clusters))), "declare it under clusters")
	c.Report(document.Fault{Code: document.CodeUnknownName, At: at, Hint: hint}, "there is no cluster %q", document.Cut(name, 80))
}

// checkClusterCycles reports clusters whose kubeconfig is read from themselves,
// directly or over others.
func (c *checker) checkClusterCycles() {
	done := map[string]bool{}
	for _, first := range slices.Sorted(maps.Keys(c.plan.Clusters)) {
		var chain []string
		for name := first; !done[name]; {
			done[name] = true
			chain = append(chain, name)
			ref := c.plan.Clusters[name].KubeconfigSecret
			if ref == nil {
				break
			}
			next := ref.Cluster
			if next == "" {
				next = c.plan.Defaults.Cluster
			}
			if i := slices.Index(chain, next); i >= 0 {
				at := document.Path{"clusters", name, "kubeconfig_secret"}
				c.ReportField(document.Fault{Code: document.CodeCycle, At: at, Hint: "let one of them be reached by a context or a kubeconfig file"}, "cycle: each cluster's kubeconfig is in the next one: %s", strings.Join(append(chain[i:], next), " -> "))
				break
			}
			if _, ok := c.plan.Clusters[next]; !ok {
				break
			}
			name = next
		}
	}
}
