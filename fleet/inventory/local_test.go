package inventory_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inventory"
)

const contexts = `apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: a, user: plain, namespace: apps}}
- {name: "arn:aws:eks:eu:1:cluster/b", context: {cluster: b, user: plain}}
- {name: exec, context: {cluster: b, user: exec}}
- {name: broken, context: {cluster: none, user: plain}}
clusters:
- {name: a, cluster: {server: "https://a:6443/", certificate-authority: ca.pem}}
- {name: b, cluster: {server: "https://b:6443", insecure-skip-tls-verify: true}}
users:
- {name: plain, user: {token: t0ken}}
- {name: exec, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}}
`

func local(t *testing.T) (m *inventory.Management, dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(contexts), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("CERTIFICATE"), 0o600))
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = new(filepath.Join(dir, "kubeconfig"))
	return inventory.NewManagement(inventory.Options{Dir: dir, Flags: flags}), dir
}

func TestContexts(t *testing.T) {
	m, dir := local(t)
	for _, c := range []struct {
		source        fleet.ContextSource
		want, refused []string
		fault         string
	}{
		{fleet.ContextSource{}, []string{"a", "arn:aws:eks:eu:1:cluster/b", "exec"}, []string{"broken"}, ""},
		{fleet.ContextSource{Names: []string{"a*"}}, []string{"a", "arn:aws:eks:eu:1:cluster/b"}, nil, ""},
		{fleet.ContextSource{Names: []string{"?", "e*"}}, []string{"a", "exec"}, nil, ""},
		{fleet.ContextSource{Names: []string{"*"}, Kubeconfig: "kubeconfig"}, []string{"a", "arn:aws:eks:eu:1:cluster/b"}, []string{"broken", "exec"}, ""},
		{fleet.ContextSource{Names: []string{"a", "x*"}}, nil, nil, `no context of the kubeconfig is named "x*"`},
		{fleet.ContextSource{Kubeconfig: "gone"}, nil, nil, "there is no kubeconfig " + filepath.Join(dir, "gone")},
	} {
		found, err := m.Find(t.Context(), []fleet.Inventory{{Contexts: &c.source}})
		if c.fault != "" {
			require.EqualError(t, err, c.fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, names(found[0].Clusters))
		var refused []string
		for _, r := range found[0].Refused {
			refused = append(refused, r.Name)
		}
		require.Equal(t, c.refused, refused)
	}
}

// A kubeconfig of this machine is read with what is in its files.
func TestReadLocal(t *testing.T) {
	m, dir := local(t)
	k := &inventory.Kubeconfigs{Management: m}
	text, err := k.Read(t.Context(), fleet.Cluster{})
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	require.NoError(t, err)
	require.Equal(t, []string{"https://a:6443/", "CERTIFICATE", "t0ken"}, []string{config.Host, string(config.CAData), config.BearerToken})
	server, ca, err := inventory.Pin(text)
	require.NoError(t, err)
	require.Equal(t, "https://a:6443", server)
	require.Len(t, ca, 64)

	text, err = k.Read(t.Context(), fleet.Cluster{Access: fleet.Access{Context: "exec"}})
	require.NoError(t, err) // it is the user's own
	config, err = clientcmd.RESTConfigFromKubeConfig(text)
	require.NoError(t, err)
	require.Equal(t, "aws", config.ExecProvider.Command)
	_, ca, err = inventory.Pin(text)
	require.NoError(t, err)
	require.Equal(t, "insecure", ca)
	_, err = k.Read(t.Context(), fleet.Cluster{Access: fleet.Access{Context: "exec", Kubeconfig: filepath.Join(dir, "kubeconfig")}})
	require.ErrorContains(t, err, `the kubeconfig would run the program "aws" for its credentials; nothing runs because a fleet says so`)
	_, err = k.Read(t.Context(), fleet.Cluster{Access: fleet.Access{Context: "none"}})
	require.EqualError(t, err, `kubeconfig has no context "none"`)
}

func TestList(t *testing.T) {
	m, dir := local(t)
	found, err := m.Find(t.Context(), []fleet.Inventory{{List: []fleet.Listed{
		{Name: "one", Context: "a", Labels: map[string]string{"ring": "0"}, Namespace: "apps"},
		{Name: "two", Kubeconfig: "kubeconfig"},
		{Name: "three", Context: "none"},
	}}})
	require.NoError(t, err)
	require.Equal(t, []fleet.Cluster{
		{Name: "one", Labels: map[string]string{"ring": "0"}, Source: fleet.Source{Kind: "list"}, Access: fleet.Access{Context: "a", DefaultNamespace: "apps"}},
		{Name: "two", Source: fleet.Source{Kind: "list"}, Access: fleet.Access{Kubeconfig: filepath.Join(dir, "kubeconfig")}},
	}, found[0].Clusters)
	require.EqualError(t, found[0].Refused[0].Err, `kubeconfig has no context "none"`)
}
