package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// Given is a kubeconfig that takes the place of what a plan says of a cluster.
type Given struct {
	Secret
	// Context is one of the kubeconfig's (default: its current one).
	Context string
	// Namespace is that of objects which name none (default: the plan's, else the context's).
	Namespace string
	// Flags name a kubeconfig of this machine, which is used in place of the Secret's. It may
	// run programs for its credentials if Plugins is set.
	Flags   *genericclioptions.ConfigFlags
	Plugins bool
}

// local reads a kubeconfig of this machine.
func (g *Given) local(name string, spec plan.Cluster) (*Access, error) {
	flags := g.Flags
	if g.Context != "" {
		flags = withContext(flags, g.Context)
	}
	a, err := FromFlags(flags)
	if err == nil && !g.Plugins {
		err = withoutPlugins(a.config)
	}
	if err == nil {
		err = rest.LoadTLSFiles(a.config)
	}
	if err != nil {
		return nil, &GivenError{Source: g.Name, Err: runner.Permanent(err)}
	}
	if err := g.pinned(a.config); err != nil {
		return nil, runner.Permanent(err)
	}
	return a.As(name, cmp.Or(g.Namespace, spec.Namespace)), nil
}

// fetch reads the kubeconfig.
func (g *Given) fetch(ctx context.Context, c *Conn) (*Access, error) {
	access, err := FromSecret(ctx, c.name, g.Context, g.Secret)
	if err != nil {
		return nil, &GivenError{Source: g.Name, Err: err}
	}
	return access.As(c.name, cmp.Or(g.Namespace, c.spec.Namespace)), nil
}

// GivenError says that a kubeconfig that was given for a cluster cannot be read, or is none
// to be used.
type GivenError struct {
	// Source names what the kubeconfig is read from, for people.
	Source string
	Err    error
}

func (e *GivenError) Error() string {
	if text := e.Err.Error(); strings.HasPrefix(text, e.Source) {
		return text
	}
	return e.Source + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *GivenError) Unwrap() error { return e.Err }

// Pin reads where a kubeconfig leads: the address of the API server, and the SHA-256 of the
// certificates that are trusted there, in hex. That is empty for those of the system, and
// "insecure" when any are. An empty context means the current one.
func Pin(kubeconfig []byte, context string) (server, ca string, err error) {
	k := &credentials{context: context}
	parsed, err := k.parse(kubeconfig)
	if err != nil {
		return "", "", err
	}
	server, ca = pinOf(parsed.config)
	return server, ca, nil
}

func pinOf(c *rest.Config) (server, ca string) {
	server = strings.TrimSuffix(c.Host, "/")
	switch {
	case c.Insecure:
		ca = "insecure"
	case len(c.CAData) > 0:
		sum := sha256.Sum256(c.CAData)
		ca = hex.EncodeToString(sum[:])
	}
	return server, ca
}

// pinned returns an error when a kubeconfig leads elsewhere than it must.
func (s Secret) pinned(c *rest.Config) error {
	if s.Server == "" {
		return nil
	}
	server, ca := pinOf(c)
	if server == strings.TrimSuffix(s.Server, "/") && ca == s.CA {
		return nil
	}
	return &PinError{Source: s.Name, Server: shownServer(server), Want: shownServer(s.Server)}
}

// shownServer is an address without what it may hold of credentials.
func shownServer(server string) string { return (&Access{config: &rest.Config{Host: server}}).server() }

// PinError says that a kubeconfig leads to another server than it must, or trusts others.
type PinError struct {
	// Source names what the kubeconfig is read from, Server is where it leads, and Want
	// where it must.
	Source, Server, Want string
}

func (e *PinError) Error() string {
	if e.Server == e.Want {
		return fmt.Sprintf("%s trusts other certificates for %s than before", e.Source, e.Server)
	}
	return fmt.Sprintf("%s leads to %s, and not to %s as before", e.Source, e.Server, e.Want)
}

// Hint implements the interface that runner.HintOf looks for.
func (e *PinError) Hint() string {
	return "if the cluster was made anew or moved, freeze the fleet again; else find out who changed the kubeconfig"
}
