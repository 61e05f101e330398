package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/steps"
)

// kubeconfig is how the cluster is reached.
func (m *member) kubeconfig() steps.Kubeconfig {
	c := m.Cluster
	k := steps.Kubeconfig{Name: About(c), Namespace: c.Access.DefaultNamespace, Server: c.Server, CA: c.CA}
	switch path := c.Access.Kubeconfig; {
	case c.Access.Secret != nil && m.Kubeconfig == nil:
		k.Read = func(context.Context) ([]byte, error) {
			return nil, errors.New("nobody here reads kubeconfigs of Secrets")
		}
	case c.Access.Secret != nil:
		k.Read = func(ctx context.Context) ([]byte, error) { return m.Kubeconfig(ctx, c) }
	case path != "":
		k.Flags, k.Context = genericclioptions.NewConfigFlags(false), c.Access.Context
		k.Flags.KubeConfig = &path
	default:
		k.Flags, k.Context, k.Plugins = m.flags(), c.Access.Context, true
	}
	if c.Access.Secret != nil && !c.Access.ArgoCD {
		k.Context = c.Access.Context
	}
	return k
}

// About names for people where a cluster's kubeconfig is.
func About(c fleet.Cluster) string {
	a := c.Access
	switch {
	case a.Secret != nil:
		return fmt.Sprintf("Secret %s/%s in %s", a.Secret.Namespace, a.Secret.Name, cmp.Or(prefixed("cluster ", a.Secret.Cluster), "the cluster of the command line"))
	case a.Context != "" && a.Kubeconfig != "":
		return fmt.Sprintf("context %s of %s", a.Context, a.Kubeconfig)
	case a.Context != "":
		return "context " + a.Context
	}
	return cmp.Or(prefixed("kubeconfig ", a.Kubeconfig), "the kubeconfig of the command line")
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
