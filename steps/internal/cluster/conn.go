package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/flight"
	"github.com/kplan-dev/kplan/plan"
)

// Conn is the way to one cluster of a plan. It is safe for concurrent use.
type Conn struct {
	// name is the plan's; empty for the cluster of the command line.
	name      string
	spec      plan.Cluster
	userAgent string
	// access is what the kubeconfig says, nil while that is in a Secret; holder is
	// the way to the Secret's cluster. A kubeconfig that was given has no holder.
	access *Access
	holder *Conn
	given  *Given

	flight flight.Group[*Cluster]

	mu     sync.Mutex
	opened *Cluster
	all    []*Cluster // that were ever opened
}

// Connect returns a connection to the cluster, which was just seen to be there.
func (c *Conn) Connect(ctx context.Context) (*Cluster, error) { return c.flight.Do(ctx, "", c.open) }

// Now returns the connection if there is one already.
func (c *Conn) Now() *Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// open checks the connection that there is, or makes one. A cluster whose
// kubeconfig is in a Secret may have got another address or authority: it is
// connected to anew when it is not there any more.
func (c *Conn) open(ctx context.Context) (*Cluster, error) {
	if opened := c.Now(); opened != nil {
		err := opened.Reach(ctx)
		if err == nil {
			return opened, nil
		}
		if c.access != nil || ctx.Err() != nil {
			return nil, err
		}
	}
	access, err := c.access, error(nil)
	switch {
	case c.given != nil && access == nil:
		access, err = c.given.fetch(ctx, c)
	case c.holder != nil:
		access, err = c.fetch(ctx)
	}
	if err != nil {
		return nil, err
	}
	opened, err := access.Connect(ctx, c.userAgent)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened, c.all = opened, append(c.all, opened)
	return opened, nil
}

// fetch reads the kubeconfig from its Secret.
func (c *Conn) fetch(ctx context.Context) (*Access, error) {
	ref := *c.spec.KubeconfigSecret
	ref.Key = cmp.Or(ref.Key, "value")
	access, err := FromSecret(ctx, c.name, c.spec.Context, Secret{
		Name: c.holder.describe("Secret", ref),
		Read: func(ctx context.Context) ([]byte, error) { return c.holder.Value(ctx, Secrets, ref) },
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.name, err)
	}
	return access.As(c.name, c.spec.Namespace), nil
}

// Namespace is the default one as far as it is known without asking anybody.
func (c *Conn) Namespace() string {
	if opened := c.Now(); opened != nil {
		return opened.Namespace()
	}
	if c.access != nil {
		return c.access.Namespace()
	}
	if c.given != nil && c.given.Namespace != "" {
		return c.given.Namespace
	}
	return cmp.Or(c.spec.Namespace, metav1.NamespaceDefault)
}

// Local reports whether this machine knows how to reach the cluster, without asking
// another one.
func (c *Conn) Local() bool { return c.access != nil || c.given != nil }

// Given reports whether somebody else found the cluster's kubeconfig.
func (c *Conn) Given() bool { return c.given != nil }

// About names the cluster for people.
func (c *Conn) About() string {
	if c.access != nil {
		return c.access.About()
	}
	if c.given != nil {
		return c.given.Name
	}
	return "kubeconfig in " + c.holder.describe("Secret", *c.spec.KubeconfigSecret)
}

// Close stops what steps shared.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, opened := range c.all {
		opened.Survey.Close()
	}
}
