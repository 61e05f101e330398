package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func lab(t *testing.T, nodes int) *Lab {
	t.Helper()
	t.Setenv("KPLAN_LAB_HOME", t.TempDir())
	l, err := Open("one")
	require.NoError(t, err)
	l.Nodes, l.API = nodes, 6443
	return l
}

// Names become parts of paths and of network names.
func TestOpenName(t *testing.T) {
	t.Setenv("KPLAN_LAB_HOME", t.TempDir())
	for name, good := range map[string]bool{
		"kplan": true, "a": true, "e2e-1": true, strings.Repeat("a", 32): true,
		"": false, "-a": false, "a-": false, "A": false, "a/b": false, "..": false, "a b": false, strings.Repeat("a", 33): false,
	} {
		_, err := Open(name)
		require.Equal(t, good, err == nil, "%q: %v", name, err)
	}
}

// What is saved is found again; what is not there is said so.
func TestOpenSaved(t *testing.T) {
	l := lab(t, 1)
	_, err := OpenExisting("one")
	require.ErrorIs(t, err, ErrAbsent)
	require.NoError(t, os.MkdirAll(l.Dir, 0o700))
	require.NoError(t, l.save())
	again, err := OpenExisting("one")
	require.NoError(t, err)
	require.Equal(t, l, again)
	names, err := Names()
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, names)

	status, err := again.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, Broken, status.State, "it has no processes")
}

// A kubeconfig stands alone, and no name in it is one of YAML's booleans.
func TestWriteCredentials(t *testing.T) {
	l := lab(t, 1)
	require.NoError(t, writeCredentials(l))
	for path, server := range map[string]string{
		l.Kubeconfig():            "https://127.0.0.1:6443",
		l.kubeconfigOf("kubelet"): "https://10.123.0.1:6443",
	} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var config struct {
			CurrentContext string `json:"current-context"`
			Contexts       []struct {
				Name    string
				Context struct{ Cluster, User string }
			}
			Clusters []struct {
				Name    string
				Cluster struct{ Server string }
			}
			Users []struct {
				Name string
				User map[string][]byte
			}
		}
		require.NoError(t, yaml.UnmarshalStrict(dropHeader(text), &config))
		require.Equal(t, config.CurrentContext, config.Contexts[0].Name)
		require.Equal(t, config.Contexts[0].Context.Cluster, config.Clusters[0].Name)
		require.Equal(t, config.Contexts[0].Context.User, config.Users[0].Name)
		require.Equal(t, server, config.Clusters[0].Cluster.Server[:len(server)])
		require.Contains(t, string(config.Users[0].User["client-key-data"]), "PRIVATE KEY")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.FileExists(t, l.credential("tokens.key"))
}

// dropHeader removes what the types of the test leave out.
func dropHeader(text []byte) []byte {
	kept := strings.NewReplacer("apiVersion: v1\n", "", "kind: Config\n", "").Replace(string(text))
	lines := strings.Split(kept, "\n")
	for i, line := range lines {
		if strings.Contains(line, "certificate-authority-data") {
			lines[i] = ""
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// Components are found with and without their prefix.
func TestComponent(t *testing.T) {
	l := lab(t, 1)
	for given, want := range map[string]string{"apiserver": apiserver, "kube-apiserver": apiserver, "etcd": etcd, "proxy": proxy} {
		name, err := l.Component(given)
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	l.Nodes = 0
	_, err := l.Component("kubelet")
	require.EqualError(t, err, `no component "kubelet" in lab one; there are serve, etcd, kube-apiserver, kube-controller-manager`)
}

// Charts given by name must be right; of the lab's own, those that are not
// are left out, and that is said.
func TestCharts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": "apiVersion: v2\nname: good\nversion: 1.0.0\n", "bad": "name: [\n"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "Chart.yaml"), []byte(text), 0o600))
	}
	var said []string
	say := func(format string, _ ...any) { said = append(said, format) }
	found, err := charts(nil, dir, say)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "good")}, found)
	require.Len(t, said, 1)
	_, err = charts([]string{filepath.Join(dir, "bad")}, dir, say)
	require.Error(t, err)
}
