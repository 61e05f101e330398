package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/runner"
)

// access is how a cluster is reached: what a kubeconfig says of it.
type access struct {
	config    *rest.Config
	namespace string
}

// abs is the absolute path of a name that is relative to a folder.
func abs(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// flagsFor are flags for a context of the same kubeconfig: what else flags pick is for the
// one that they pick, but for whom to impersonate. Without a context they are the flags.
func flagsFor(flags *genericclioptions.ConfigFlags, context string) *genericclioptions.ConfigFlags {
	if context == "" {
		return flags
	}
	f := genericclioptions.NewConfigFlags(false)
	f.KubeConfig, f.Context = flags.KubeConfig, &context
	f.Impersonate, f.ImpersonateUID = flags.Impersonate, flags.ImpersonateUID
	f.ImpersonateGroup, f.ImpersonateUserExtra = flags.ImpersonateGroup, flags.ImpersonateUserExtra
	return f
}

// fileFlags are flags for a kubeconfig file that the fleet file names.
func fileFlags(path, context string) (*genericclioptions.ConfigFlags, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, usage(fmt.Errorf("there is no kubeconfig %s", path), "paths are relative to the fleet file")
	}
	f := genericclioptions.NewConfigFlags(false)
	f.KubeConfig, f.Context = &path, &context
	return f, nil
}

// fromFlags reads the user's own kubeconfig, which may run programs for its credentials.
func fromFlags(flags *genericclioptions.ConfigFlags, context string) (*access, error) {
	return fromLoader(flagsFor(flags, context))
}

// fromFile reads a kubeconfig that a fleet file names. It may not run programs: nothing
// runs because of what a file says.
func fromFile(path, context string) (*access, error) {
	flags, err := fileFlags(path, context)
	if err != nil {
		return nil, err
	}
	a, err := fromLoader(flags)
	if err == nil {
		err = withoutPlugins(a.config)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", path, err), runner.HintOf(err))
	}
	return a, nil
}

// fromLoader reads what flags lead to.
func fromLoader(flags *genericclioptions.ConfigFlags) (*access, error) {
	loader := flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, usage(fmt.Errorf("kubeconfig cannot be read: %w", err), "check the file that --kubeconfig or KUBECONFIG names; without them it is ~/.kube/config")
	}
	server := ptr.Deref(flags.APIServer, "")
	// Without any cluster kubectl goes to localhost:8080, where nobody is.
	if len(raw.Clusters) == 0 && server == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil, usage(errors.New("no cluster is configured"), "set KUBECONFIG or --kubeconfig to the kubeconfig of a cluster; kplan also reads ~/.kube/config")
	}
	name := cmp.Or(ptr.Deref(flags.Context, ""), raw.CurrentContext)
	picked := server != "" || ptr.Deref(flags.ClusterName, "") != ""
	if err := checkContext(raw, name, picked); err != nil {
		return nil, usage(err, "")
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, usage(fmt.Errorf("kubeconfig cannot be used: %w", err), "pick another context, or mend the kubeconfig")
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, usage(fmt.Errorf("kubeconfig has no usable namespace: %w", err), "")
	}
	return &access{config, namespace}, nil
}

// checkContext refuses a context that is not there, or whose cluster or user is not.
func checkContext(raw clientcmdapi.Config, name string, picked bool) error {
	used := raw.Contexts[name]
	switch {
	case name == "" && !picked && len(raw.Contexts) > 0:
		return runner.WithHint(errors.New("kubeconfig has no current context"), contextNames(raw))
	case name == "":
		return nil
	case used == nil:
		return runner.WithHint(fmt.Errorf("kubeconfig has no context %q", name), contextNames(raw))
	case raw.Clusters[used.Cluster] == nil && !picked:
		return runner.WithHint(fmt.Errorf("kubeconfig has no cluster %q, which its context %q names", used.Cluster, name), "mend the kubeconfig")
	case used.AuthInfo != "" && raw.AuthInfos[used.AuthInfo] == nil:
		return runner.WithHint(fmt.Errorf("kubeconfig has no user %q, which its context %q names", used.AuthInfo, name), "mend the kubeconfig")
	}
	return nil
}

func contextNames(raw clientcmdapi.Config) string {
	if len(raw.Contexts) == 0 {
		return "the kubeconfig has no contexts"
	}
	names := slices.Sorted(maps.Keys(raw.Contexts))
	const most = 10
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return "the kubeconfig has: " + strings.Join(names, ", ")
}

// withoutPlugins refuses credentials that a program on this machine makes.
func withoutPlugins(c *rest.Config) error {
	switch {
	case c.ExecProvider != nil:
		return runner.WithHint(fmt.Errorf("the kubeconfig would run the program %q for its credentials; nothing runs because a fleet says so", c.ExecProvider.Command),
			"give such a kubeconfig by --kubeconfig or KUBECONFIG, and name its context in the fleet; or use a token or a client certificate")
	case c.AuthProvider != nil:
		return runner.WithHint(fmt.Errorf("the kubeconfig uses the auth provider %q; nothing runs because a fleet says so", c.AuthProvider.Name),
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

// parse reads a kubeconfig from a Secret, which neither runs programs nor refers to files:
// whoever may write the Secret would rule this machine. Its errors do not repeat what is
// in it.
func parse(text []byte, context string) (*access, error) {
	raw, used, err := pick(text, context)
	if err != nil {
		return nil, err
	}
	at := raw.Contexts[used]
	if err := withoutFiles(raw.Clusters[at.Cluster], raw.AuthInfos[at.AuthInfo]); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveClientConfig(*raw, used, &clientcmd.ConfigOverrides{}, nil)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	if err := withoutPlugins(config); err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig has no usable namespace: %w", err)
	}
	return &access{config, namespace}, nil
}

// pick reads a kubeconfig, and which of its contexts is used.
func pick(text []byte, context string) (*clientcmdapi.Config, string, error) {
	raw, err := clientcmd.Load(text)
	if err != nil {
		return nil, "", runner.WithHint(errors.New("there is no kubeconfig in it"), "is it the right key? key says which one is read")
	}
	name := cmp.Or(context, raw.CurrentContext)
	if err := checkContext(*raw, name, false); err != nil {
		return nil, "", err
	}
	if raw.Contexts[name] == nil {
		return nil, "", errors.New("the kubeconfig has no contexts")
	}
	return raw, name, nil
}
