package plan

import (
	"fmt"
	"slices"
	"strings"
)

// checkClusters looks at the plan's clusters and at who names them.
func (c *checker) checkClusters() {
	for _, name := range sortedKeys(c.plan.Clusters) {
		cluster, at := c.plan.Clusters[name], path{"clusters", name}
		if len(name) > 63 || !dnsLabel.MatchString(name) {
			c.addKey(at, labelHint, "%q cannot be the name of a cluster", cut(name, 80))
		}
		for _, field := range []string{"context", "kubeconfig", "namespace"} {
			if c.isEmptyText(at.key(field)) {
				c.addValue(at.key(field), "remove it", "%s is empty", field)
			}
		}
		c.checkLabel(cluster.Namespace, at.key("namespace"))
		ref := cluster.KubeconfigSecret
		if ref == nil {
			continue
		}
		at = at.key("kubeconfig_secret")
		if cluster.Kubeconfig != "" {
			c.addKey(at, "keep one of them", "the cluster %q has both kubeconfig and kubeconfig_secret", name)
		}
		c.checkClusterName(ref.Cluster, at.key("cluster"))
		c.checkLabel(ref.Namespace, at.key("namespace"))
		if ref.Name != "" && (len(ref.Name) > 253 || !dnsSubdomain.MatchString(ref.Name)) {
			c.addValue(at.key("name"), "", "%q cannot be the name of a Secret", cut(ref.Name, 80))
		}
		if ref.Key != "" && !dataKey.MatchString(ref.Key) {
			c.addValue(at.key("key"), "", "%q cannot be the key of a Secret", cut(ref.Key, 80))
		}
	}
	c.checkClusterName(c.plan.Defaults.Cluster, path{"defaults", "cluster"})
	c.checkClusterCycles()
}

// checkClusterName looks whether the plan has a cluster.
func (c *checker) checkClusterName(name string, at path) {
	if name == "" {
		if c.isEmptyText(at) {
			c.addValue(at, "remove it to mean the default", "the name of the cluster is empty")
		}
		return
	}
	clusters, ok := c.tree["clusters"].(map[string]any)
	if _, known := clusters[name]; known || !ok && c.tree["clusters"] != nil {
		return
	}
	hint := "declare it under clusters"
	if near := c.nearest(name, sortedKeys(clusters)); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.as(CodeUnknownName).addValue(at, hint, "there is no cluster %q", cut(name, 80))
}

// checkClusterCycles reports clusters whose kubeconfig is read from themselves,
// directly or over others.
func (c *checker) checkClusterCycles() {
	done := map[string]bool{}
	for _, first := range sortedKeys(c.plan.Clusters) {
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
				at := path{"clusters", name, "kubeconfig_secret"}
				c.as(CodeCycle).addKey(at, "let one of them be reached by a context or a kubeconfig file",
					"cycle: each cluster's kubeconfig is in the next one: %s", strings.Join(append(chain[i:], next), " -> "))
				break
			}
			if _, ok := c.plan.Clusters[next]; !ok {
				break
			}
			name = next
		}
	}
}
