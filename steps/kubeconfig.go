package steps

import (
	"context"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Kubeconfig is how a cluster is reached that somebody else than the plan knows of. A
// kubeconfig that would run a program, or that names files of this machine, is refused.
type Kubeconfig struct {
	// Name names it for people: Secret prod/east-kubeconfig in cluster mgmt.
	Name string
	// Read reads it. It is called again, by any goroutine but by one at a time, when the
	// cluster does not accept its credentials any more.
	Read func(context.Context) ([]byte, error)
	// Context is one of its contexts (default: its current one), and Namespace that of
	// objects which name none (default: the plan's for the cluster, else the context's).
	Context, Namespace string
	// Server and CA are what it must say, as Pin reads them, whenever it is read; an empty
	// Server leaves both open.
	Server, CA string
	// Flags name a kubeconfig of this machine, which is used in place of what Read gives. It
	// may name files, and run programs for its credentials if Plugins is set: it is the
	// user's own, and not one that a file names.
	Flags   *genericclioptions.ConfigFlags
	Plugins bool
}

// Pin reads where a kubeconfig leads: the address of the API server, and the SHA-256 of the
// certificates that are trusted there, in hex. That is empty for those of the system, and
// "insecure" when any are. An empty context means the current one. It refuses what New
// refuses.
func Pin(kubeconfig []byte, context string) (server, ca string, err error) {
	return cluster.Pin(kubeconfig, context)
}

func given(all map[string]Kubeconfig) map[string]cluster.Given {
	out := make(map[string]cluster.Given, len(all))
	for name, k := range all {
		out[name] = cluster.Given{
			Secret:  cluster.Secret{Name: k.Name, Read: k.Read, Server: k.Server, CA: k.CA},
			Context: k.Context, Namespace: k.Namespace, Flags: k.Flags, Plugins: k.Plugins,
		}
	}
	return out
}
