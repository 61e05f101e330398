package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// Access is how a cluster is reached: what a kubeconfig says of it.
type Access struct {
	// name is the plan's for it; empty for the cluster of the command line.
	name string
	// config has no credentials when there are keys.
	config    *rest.Config
	loader    clientcmd.ClientConfig
	namespace string
	context   string // its name; empty when none is used
	// credentials are the credentials of a kubeconfig that can be read again; nil of others.
	credentials *credentials
}

// FromFile reads a kubeconfig file that a plan names. An empty context means its
// current one. A kubeconfig that would run a program is refused: the plan says
// which file it is, and nothing runs because of what a plan says.
func FromFile(path, kubeContext string) (*Access, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, userError{runner.WithHint(fmt.Errorf("there is no kubeconfig %s", path), "paths are relative to the plan file")}
	}
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Context = &path, &kubeContext
	a, err := load(flags, inPlan)
	if err == nil {
		err = withoutPlugins(a.config)
	}
	if err != nil {
		return nil, userError{fmt.Errorf("%s: %w", path, err)}
	}
	return a, nil
}

// inPlan is how a plan picks a context.
const inPlan = "context in the plan's clusters"

// Secret is where a kubeconfig is kept that is not on this machine.
type Secret struct {
	// Name names it for people: Secret kcm-system/regional-kubeconfig in cluster mothership.
	Name string
	// Read reads the kubeconfig. It is called again, by any goroutine but by one
	// at a time, when the cluster does not accept its credentials any more.
	Read func(context.Context) ([]byte, error)
	// Server and CA are what the kubeconfig must say, as Pin reads them, whenever it is read:
	// an empty Server leaves both open.
	Server, CA string
}

// FromSecret reads a kubeconfig from a Secret; cluster is what the plan calls the
// cluster, and an empty context means the kubeconfig's current one. A kubeconfig
// that would run a program, or that refers to files of this machine, is refused:
// whoever may write the Secret would rule this machine.
func FromSecret(ctx context.Context, cluster, kubeContext string, s Secret) (*Access, error) {
	k := &credentials{cluster: cluster, context: kubeContext, source: s}
	first, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	k.current = first
	return &Access{
		name: cluster, config: rest.AnonymousClientConfig(first.config), loader: first.loader,
		namespace: first.namespace, context: first.context, credentials: k,
	}, nil
}

// As is the access under the name that a plan has for the cluster, and with a
// default namespace unless that is empty.
func (a *Access) As(name, namespace string) *Access {
	a.name = name
	if namespace != "" {
		a.namespace = namespace
	}
	return a
}

// Namespace is the default namespace: that of the plan's cluster or of
// --namespace, else of the context.
func (a *Access) Namespace() string { return a.namespace }

// About names the cluster for people: "context kind-x, https://127.0.0.1:6443".
// What an address may hold of credentials is left out.
func (a *Access) About() string {
	if a.context == "" {
		return a.server()
	}
	return "context " + a.context + ", " + a.server()
}

// what names the cluster in errors.
func (a *Access) what() string {
	if a.name == "" {
		return "cluster " + a.server()
	}
	return fmt.Sprintf("cluster %s (%s)", a.name, a.server())
}

// server is the API server's address, without what it may hold of credentials.
func (a *Access) server() string {
	u, _, err := rest.DefaultServerUrlFor(a.config)
	if err != nil {
		return "at an address that is malformed"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return strings.TrimSuffix(u.String(), "/")
}

// withoutPlugins refuses credentials that a program on this machine makes.
func withoutPlugins(c *rest.Config) error {
	switch {
	case c.ExecProvider != nil:
		return runner.WithHint(fmt.Errorf("the kubeconfig would run the program %q for its credentials; nothing runs because a plan says so", c.ExecProvider.Command),
			"give such a kubeconfig by --kubeconfig or KUBECONFIG, and name its context in the plan; or use a token or a client certificate")
	case c.AuthProvider != nil:
		return runner.WithHint(fmt.Errorf("the kubeconfig uses the auth provider %q; nothing runs because a plan says so", c.AuthProvider.Name),
			"use a token or a client certificate")
	}
	return nil
}

// withoutFiles refuses a kubeconfig that refers to files of this machine.
func withoutFiles(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	cluster, user = cmp.Or(cluster, &clientcmdapi.Cluster{}), cmp.Or(user, &clientcmdapi.AuthInfo{})
	for _, f := range []struct{ field, path string }{
		{"certificate-authority", cluster.CertificateAuthority},
		{"tokenFile", user.TokenFile},
		{"client-certificate", user.ClientCertificate},
		{"client-key", user.ClientKey},
	} {
		if f.path != "" {
			return runner.WithHint(fmt.Errorf("the kubeconfig refers to the file %q in %s; one from a Secret may not", f.path, f.field),
				"put what is in the file into the kubeconfig: kubectl config view --flatten --minify --raw")
		}
	}
	return nil
}

// unreachable says that the cluster did not answer at all.
func (a *Access) unreachable(err error) error {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused // it did answer
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	hint := cmp.Or(runner.HintOf(kubeerr.ExplainNetwork(err)),
		"check that the address in the kubeconfig is right and that this machine can reach it")
	return runner.WithHint(&UnreachableError{a.what(), short(err)}, hint)
}

// AnswerError says that something else than an API server which is well answered.
type AnswerError struct {
	// Cluster names the cluster, and What says what it did.
	Cluster, What string
}

func (e *AnswerError) Error() string { return e.Cluster + " " + e.What }

// UnreachableError says that a cluster did not answer at all.
type UnreachableError struct {
	// Cluster names the cluster with its address, for people.
	Cluster string
	Cause   error
}

func (e *UnreachableError) Error() string {
	return e.Cluster + " cannot be reached: " + e.Cause.Error()
}

// Unwrap returns Cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// short leaves out the method and address that net/http puts before the cause.
func short(err error) error {
	inner := errors.Unwrap(err)
	if inner == nil {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](inner); ok {
		return op
	}
	return inner
}
