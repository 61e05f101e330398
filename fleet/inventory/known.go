package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// known is a kubeconfig of this machine that was read. One with a thousand contexts takes
// its time, and a fleet asks for each of them.
type known struct {
	config *clientcmdapi.Config
	// stamp tells what the files were like.
	stamp string
}

// kubeconfig reads a kubeconfig of this machine, unless it is as it was read before; "" is
// that of the command line.
func (m *Management) kubeconfig(path string) (*clientcmdapi.Config, error) {
	flags, files := m.Flags, []string{path}
	if path != "" {
		var err error
		if flags, err = fileFlags(path, ""); err != nil {
			return nil, err
		}
	}
	loader := flags.ToRawKubeConfigLoader()
	if path == "" {
		access := loader.ConfigAccess()
		files = append(access.GetLoadingPrecedence(), access.GetExplicitFile())
	}
	stamp := stampOf(files)
	m.mu.Lock()
	defer m.mu.Unlock() // whoever wants it meanwhile waits for the same
	if k := m.known[path]; k != nil && k.stamp == stamp {
		return k.config, nil
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, usage(fmt.Errorf("kubeconfig cannot be read: %w", err), "check the file that --kubeconfig or KUBECONFIG names; without them it is ~/.kube/config")
	}
	m.known[path] = &known{&raw, stamp}
	return &raw, nil
}

// stampOf changes when one of some files does.
func stampOf(files []string) string {
	var b strings.Builder
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		} else if !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&b, "%s %v\n", file, err)
		}
	}
	return b.String()
}

// local says how a cluster is reached by a kubeconfig of this machine.
func (m *Management) local(a fleet.Access) (*access, error) {
	if a.Kubeconfig == "" && a.Context == "" {
		return fromFlags(m.Flags, "")
	}
	path := ""
	if a.Kubeconfig != "" {
		path = abs(m.Dir, a.Kubeconfig)
	}
	raw, err := m.kubeconfig(path)
	if err != nil {
		return nil, err
	}
	found, err := m.context(raw, a.Context, path == "")
	if err == nil && path != "" {
		err = withoutPlugins(found.config)
	}
	switch {
	case err != nil && path != "":
		return nil, usage(fmt.Errorf("%s: %w", path, err), runner.HintOf(err))
	case err != nil:
		return nil, usage(err, "")
	}
	return found, nil
}

// context is one of a kubeconfig's. The user's own is used as whom the command line says.
func (m *Management) context(raw *clientcmdapi.Config, name string, own bool) (*access, error) {
	name = cmp.Or(name, raw.CurrentContext)
	if err := checkContext(*raw, name, false); err != nil {
		return nil, err
	}
	if raw.Contexts[name] == nil {
		return nil, errors.New("the kubeconfig has no contexts")
	}
	var as clientcmd.ConfigOverrides
	if own {
		as.AuthInfo.Impersonate, as.AuthInfo.ImpersonateUID = ptr.Deref(m.Flags.Impersonate, ""), ptr.Deref(m.Flags.ImpersonateUID, "")
		as.AuthInfo.ImpersonateGroups = ptr.Deref(m.Flags.ImpersonateGroup, nil)
		for _, extra := range ptr.Deref(m.Flags.ImpersonateUserExtra, nil) {
			if key, value, ok := strings.Cut(extra, "="); ok {
				as.AuthInfo.ImpersonateUserExtra = appended(as.AuthInfo.ImpersonateUserExtra, key, value)
			}
		}
	}
	loader := clientcmd.NewNonInteractiveClientConfig(*raw, name, &as, nil)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, runner.WithHint(fmt.Errorf("kubeconfig cannot be used: %w", err), "mend the kubeconfig")
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig has no usable namespace: %w", err)
	}
	return &access{config, namespace}, nil
}

func appended(m map[string][]string, key, value string) map[string][]string {
	if m == nil {
		m = map[string][]string{}
	}
	m[key] = append(m[key], value)
	return m
}
