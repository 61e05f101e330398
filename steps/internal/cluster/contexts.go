package cluster

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// Context is one of a kubeconfig's, with the flags that lead to it.
type Context struct {
	// Name is empty of a cluster that is reached without a context, such as the one
	// whose pod this is.
	Name string
	// Cluster is the kubeconfig's name for its cluster; it may be empty.
	Cluster   string
	Namespace string
	// Server is the API server's address, as it is written down.
	Server string
	// DisableCompression is the cluster's.
	DisableCompression bool

	flags *genericclioptions.ConfigFlags
}

// Contexts are those of the kubeconfig that kubectl's flags name, sorted, and the
// name of the one that the flags pick; only leaves out the others. What flags say
// besides is for that one; whom to impersonate is for all. A fault in what is picked
// is an error, with a method Usage; others are met when they are used.
func Contexts(flags *genericclioptions.ConfigFlags, only bool) (all []Context, current string, err error) {
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil || only || len(raw.Contexts) == 0 || contextOf(flags, raw) != "" || ptr.Deref(flags.APIServer, "") != "" {
		a, err := FromFlags(flags)
		if err != nil {
			return nil, "", err
		}
		current = a.context
		all = append(all, describe(raw, a.context, flags))
		all[0].Namespace, all[0].Server = a.namespace, a.config.Host
		if only {
			return all, current, nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Contexts)) {
		if len(all) > 0 && name == current {
			continue
		}
		all = append(all, describe(raw, name, withContext(flags, name)))
	}
	slices.SortStableFunc(all, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
	return all, current, nil
}

// describe says of a context what a kubeconfig says.
func describe(raw clientcmdapi.Config, name string, flags *genericclioptions.ConfigFlags) Context {
	c := Context{Name: name, flags: flags}
	if used := raw.Contexts[name]; used != nil {
		c.Cluster, c.Namespace = used.Cluster, used.Namespace
	}
	if cluster := raw.Clusters[c.Cluster]; cluster != nil {
		c.Server, c.DisableCompression = cluster.Server, cluster.DisableCompression
	}
	return c
}

// Config reads how the context's cluster is reached.
func (c Context) Config() (*rest.Config, error) {
	a, err := FromFlags(c.flags)
	if err != nil {
		return nil, err
	}
	return a.config, nil
}

// withContext are flags for another context of the same kubeconfig: what else flags
// pick is for the one that they pick, but for whom to impersonate.
func withContext(flags *genericclioptions.ConfigFlags, name string) *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(false)
	f.KubeConfig, f.Context = flags.KubeConfig, &name
	f.Impersonate, f.ImpersonateUID = flags.Impersonate, flags.ImpersonateUID
	f.ImpersonateGroup, f.ImpersonateUserExtra = flags.ImpersonateGroup, flags.ImpersonateUserExtra
	return f
}
