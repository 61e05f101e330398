package cluster

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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/runner"
)

// userError is a fault of what the user gave.
type userError struct{ error }

func (e userError) Unwrap() error { return e.error }

// Usage tells the command line that the user's input is at fault.
func (e userError) Usage() bool { return true }

// UserError marks err as a fault of what the user gave: the plan, the command line
// or the kubeconfig.
func UserError(err error) error { return userError{err} }

// FromFlags reads the kubeconfig that kubectl's flags name, and tells faults in it
// apart. A fault is an error with a method Usage, for the command line.
func FromFlags(flags *genericclioptions.ConfigFlags) (*Access, error) {
	a, err := load(flags, "--context")
	if err != nil {
		return nil, userError{err}
	}
	return a, nil
}

// load reads a kubeconfig; by says how its user picks a context.
func load(flags *genericclioptions.ConfigFlags, by string) (*Access, error) {
	loader := flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, runner.WithHint(fmt.Errorf("kubeconfig cannot be read: %w", err),
			"give the path of an existing file by --kubeconfig or KUBECONFIG")
	case err != nil:
		return nil, runner.WithHint(fmt.Errorf("kubeconfig cannot be read: %w", err),
			"check the file that --kubeconfig or KUBECONFIG names; without them it is ~/.kube/config")
	}
	// Without any cluster kubectl goes to localhost:8080, where nobody is.
	inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if len(raw.Clusters) == 0 && ptr.Deref(flags.APIServer, "") == "" && !inCluster {
		if missing := missingFiles(flags); len(missing) > 0 {
			return nil, runner.WithHint(fmt.Errorf("no cluster is configured: KUBECONFIG names %s, which cannot be found", strings.Join(missing, " and ")),
				"correct KUBECONFIG, or give a kubeconfig by --kubeconfig")
		}
		return nil, runner.WithHint(errors.New("no cluster is configured"),
			"set KUBECONFIG or --kubeconfig to the kubeconfig of a cluster; kplan also reads ~/.kube/config")
	}
	if err := checkContext(flags, raw, by); err != nil {
		return nil, err
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, runner.WithHint(fmt.Errorf("kubeconfig cannot be used: %w", err),
			"pick another context with "+by+", or mend the kubeconfig")
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig has no usable namespace: %w", err)
	}
	return &Access{config: config, loader: loader, namespace: namespace, context: contextOf(flags, raw)}, nil
}

// missingFiles are those that KUBECONFIG names and that are not there: client-go
// passes over them without a word. --kubeconfig wins over KUBECONFIG.
func missingFiles(flags *genericclioptions.ConfigFlags) []string {
	if ptr.Deref(flags.KubeConfig, "") != "" {
		return nil
	}
	return slices.DeleteFunc(filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)), func(path string) bool {
		_, err := os.Stat(path)
		return path == "" || !errors.Is(err, fs.ErrNotExist)
	})
}

func contextOf(flags *genericclioptions.ConfigFlags, raw clientcmdapi.Config) string {
	return cmp.Or(ptr.Deref(flags.Context, ""), raw.CurrentContext)
}

// checkContext refuses contexts that are not there, or whose cluster or user is
// not; by says how the user picks one.
func checkContext(flags *genericclioptions.ConfigFlags, raw clientcmdapi.Config, by string) error {
	name := contextOf(flags, raw)
	used := raw.Contexts[name]
	switch {
	case name == "" && ptr.Deref(flags.ClusterName, "") == "" && ptr.Deref(flags.APIServer, "") == "" && len(raw.Contexts) > 0:
		return runner.WithHint(errors.New("kubeconfig has no current context"), "pick one with "+by+"; "+contextNames(raw))
	case name == "":
		return nil
	case used == nil:
		return runner.WithHint(fmt.Errorf("kubeconfig has no context %q", name), contextNames(raw))
	case raw.Clusters[used.Cluster] == nil && ptr.Deref(flags.ClusterName, "") == "" && ptr.Deref(flags.APIServer, "") == "":
		return runner.WithHint(fmt.Errorf("kubeconfig has no cluster %q, which its context %q names", used.Cluster, name),
			"pick another context with "+by+", or mend the kubeconfig")
	case used.AuthInfo != "" && raw.AuthInfos[used.AuthInfo] == nil && ptr.Deref(flags.AuthInfoName, "") == "":
		return runner.WithHint(fmt.Errorf("kubeconfig has no user %q, which its context %q names", used.AuthInfo, name),
			"pick another context with "+by+", or mend the kubeconfig")
	}
	return nil
}

func contextNames(raw clientcmdapi.Config) string {
	if len(raw.Contexts) == 0 {
		return "the kubeconfig has no contexts"
	}
	return "the kubeconfig has: " + strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
}
