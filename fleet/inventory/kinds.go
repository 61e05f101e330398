package inventory

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// capi are the Clusters of Cluster API. Both versions have what is read under the same
// names (sigs.k8s.io/cluster-api, api/core); the Secret is that of util/kubeconfig there.
var capi = api{
	kind: KindCAPI, what: "Cluster API", object: "Cluster",
	resource: schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusters"},
	versions: []string{"v1beta2", "v1beta1"},
	read: func(o object, c *fleet.Cluster) (string, error) {
		_, paused := o.GetAnnotations()["cluster.x-k8s.io/paused"]
		c.Paused = paused || o.flag("spec", "paused")
		if o.text("status", "phase") == "Deleting" {
			return "it is being deleted", nil
		}
		return "", nil
	},
}

// k0rdent are its ClusterDeployments (k0rdent/kcm, api/v1beta1). Each makes a Cluster of
// Cluster API of the same name.
var k0rdent = api{
	kind: KindK0rdent, what: "k0rdent", object: "ClusterDeployment",
	resource: schema.GroupResource{Group: "k0rdent.mirantis.com", Resource: "clusterdeployments"},
	versions: []string{"v1beta1", "v1alpha1"},
	read: func(o object, c *fleet.Cluster) (string, error) {
		if o.flag("spec", "dryRun") {
			return "it is a dry run (spec.dryRun), and no cluster", nil
		}
		if region := o.text("status", "region"); region != "" {
			return "", runner.WithHint(
				fmt.Errorf("ClusterDeployment %s/%s is of the region %q: its kubeconfig is in the regional cluster, not here", o.GetNamespace(), o.GetName(), region),
				"name the regional cluster under clusters, and take capi with that cluster as a further inventory; leave these out here by select")
		}
		return "", nil
	},
}

// sveltos are SveltosClusters (projectsveltos/libsveltos, api/v1beta1). Without a key
// Sveltos takes the first one of the Secret.
var sveltos = api{
	kind: KindSveltos, what: "Sveltos", object: "SveltosCluster",
	resource: schema.GroupResource{Group: "lib.projectsveltos.io", Resource: "sveltosclusters"},
	versions: []string{"v1beta1"},
	read: func(o object, c *fleet.Cluster) (string, error) {
		c.Paused = o.flag("spec", "paused")
		c.Access.Secret.Name, c.Access.Secret.Key = o.GetName()+"-sveltos-kubeconfig", o.text("spec", "kubeconfigKeyName")
		if name := o.text("spec", "kubeconfigName"); name != "" {
			c.Access.Secret.Name = name
		}
		name := fmt.Sprintf("SveltosCluster %s/%s", o.GetNamespace(), o.GetName())
		switch {
		case o.flag("spec", "pullMode"):
			return "", runner.WithHint(errors.New(name+" is in pull mode (spec.pullMode): there is no kubeconfig for it, its agent fetches what to do"),
				"leave it out by select, or run the plan in that cluster")
		case o.has("spec", "workloadIdentity"):
			return "", runner.WithHint(errors.New(name+" has a workload identity (spec.workloadIdentity), which kplan cannot use"),
				"give it a kubeconfig with a token or a client certificate (spec.kubeconfigName), or leave it out by select")
		}
		return "", nil
	},
}
