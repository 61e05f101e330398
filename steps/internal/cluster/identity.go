package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Identity tells the cluster from all others, whatever address it is reached at: it is
// the UID of its namespace kube-system, which no cluster is without. Where that cannot
// be read it is the address.
func (c *Cluster) Identity(ctx context.Context) string {
	ns, err := c.Client.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil || ns.GetUID() == "" {
		return c.config.Host
	}
	return string(ns.GetUID())
}
