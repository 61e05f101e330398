package load

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// checkClusters looks at the clusters that the fleet is managed from.
func (p *pass) checkClusters() {
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		at := path{"clusters", name}
		if !isLabel(name) {
			p.ReportField(fault{At: at, Hint: labelHint}, "%q cannot be the name of a cluster", document.Cut(name, 80))
		}
		p.checkAccess(p.Clusters[name], name, at)
	}
	p.checkCircles()
}

// checkAccess looks at how a cluster is reached.
func (p *pass) checkAccess(c plan.Cluster, name string, at path) {
	for _, field := range []string{"context", "kubeconfig"} {
		p.checkText(at.Key(field), "remove it")
	}
	p.checkLabel(c.Namespace, "name of a namespace", at.Key("namespace"))
	ref := c.KubeconfigSecret
	if ref == nil {
		return
	}
	at = at.Key("kubeconfig_secret")
	if c.Kubeconfig != "" {
		p.ReportField(fault{At: at, Hint: "keep one of them"}, "the cluster %q has both kubeconfig and kubeconfig_secret", document.Cut(name, 80))
	}
	p.checkClusterName(ref.Cluster, at.Key("cluster"))
	p.checkLabel(ref.Namespace, "name of a namespace", at.Key("namespace"))
	p.checkSubdomain(ref.Name, "Secret", at.Key("name"))
	if ref.Key != "" && len(validation.IsConfigMapKey(ref.Key)) > 0 {
		p.Report(fault{At: at.Key("key")}, "%q cannot be the key of a Secret", document.Cut(ref.Key, 80))
	}
}

// checkClusterName looks whether the fleet has a cluster.
func (p *pass) checkClusterName(name string, at path) {
	p.checkText(at, "remove it to mean that of the command line")
	if _, known := p.Clusters[name]; name == "" || known || p.tree["clusters"] != nil && p.Clusters == nil {
		return
	}
	hint := cmp.Or(p.near.Hint(name, slices.Sorted(maps.Keys(p.Clusters))), "declare it under clusters")
	p.Report(fault{Code: document.CodeUnknownName, At: at, Hint: hint}, "there is no cluster %q", document.Cut(name, 80))
}

// checkCircles reports clusters whose kubeconfig is read from themselves, directly or over
// others.
func (p *pass) checkCircles() {
	done := map[string]bool{}
	for _, first := range slices.Sorted(maps.Keys(p.Clusters)) {
		var chain []string
		for name := first; !done[name]; {
			done[name] = true
			chain = append(chain, name)
			ref := p.Clusters[name].KubeconfigSecret
			if ref == nil {
				break
			}
			next := ref.Cluster
			if i := slices.Index(chain, next); i >= 0 {
				at := path{"clusters", name, "kubeconfig_secret"}
				p.ReportField(fault{Code: document.CodeCycle, At: at, Hint: "let one of them be reached by a context or a kubeconfig file"}, "cycle: each cluster's kubeconfig is in the next one: %s", strings.Join(append(chain[i:], next), " -> "))
				break
			}
			if _, ok := p.Clusters[next]; !ok {
				break
			}
			name = next
		}
	}
}
