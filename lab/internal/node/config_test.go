package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Files parse, and point into the lab's folder.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	n := Node{Lab: "one", Dir: dir}
	require.NoError(t, n.Write("/credentials"))

	text, err := os.ReadFile(n.Kubelet())
	require.NoError(t, err)
	var kubelet struct {
		ClusterDNS               []string `json:"clusterDNS"`
		ContainerRuntimeEndpoint string   `json:"containerRuntimeEndpoint"`
		FailCgroupV1             bool     `json:"failCgroupV1"`
	}
	require.NoError(t, yaml.Unmarshal(text, &kubelet))
	require.Equal(t, []string{ServiceDNS}, kubelet.ClusterDNS)
	require.Equal(t, "unix://"+n.Socket(), kubelet.ContainerRuntimeEndpoint)

	text, err = os.ReadFile(filepath.Join(dir, "node/cni/10-lab.conflist"))
	require.NoError(t, err)
	require.True(t, json.Valid(text), "%s", text)

	text, err = os.ReadFile(n.Containerd())
	require.NoError(t, err)
	require.NotContains(t, string(text), "<no value>")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, " = "); ok && (name == "root" || name == "state") {
			require.True(t, strings.HasPrefix(value, `"`+dir), line)
		}
	}
}

// Labs of one name in different homes have different networks.
func TestNamespace(t *testing.T) {
	require.Equal(t, "kplan-lab-one", Node{Lab: "one", Dir: "/var/lib/kplan-lab/one"}.Namespace())
	a, b := Node{Lab: "one", Dir: "/a/one"}.Namespace(), Node{Lab: "one", Dir: "/b/one"}.Namespace()
	require.NotEqual(t, a, b)
	require.True(t, strings.HasPrefix(a, Prefix+"one-"))
}
