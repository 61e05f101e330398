// Package node holds what is particular to a machine that runs pods: the
// configuration of containerd, its network plugins, kubelet and kube-proxy,
// the folders they share, and how to end the pods that they leave.
//
// It starts nothing itself.
package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"text/template"

	"github.com/kplan-dev/kplan/lab/internal/netns"
)

// Name of the node and addresses inside the lab. Each lab has a network
// namespace of its own, so all labs use the same ones.
const (
	Name       = "lab"
	Address    = "10.123.0.1"
	Network    = Address + "/24"
	Pods       = "10.244.0.0/16"
	podsOfNode = "10.244.0.0/24" // what the controller manager gives the first node
	Services   = "10.96.0.0/16"
	ServiceAPI = "10.96.0.1"
	ServiceDNS = "10.96.0.10"
	Domain     = "cluster.local"
)

// PauseImage is the image of pod sandboxes.
const PauseImage = "kplan.dev/lab/pause:1"

// Node is a node's place on disk.
type Node struct {
	Lab string // the lab's name
	Dir string // the lab's state folder
}

// Socket is containerd's.
func (n Node) Socket() string { return filepath.Join(n.Dir, "containerd.sock") }

// file is a path inside the node's folder.
func (n Node) file(name string) string { return filepath.Join(n.Dir, "node", name) }

// Containerd is its configuration file.
func (n Node) Containerd() string { return n.file("containerd.toml") }

// Kubelet is its configuration file.
func (n Node) Kubelet() string { return n.file("kubelet.yaml") }

// Prefix begins the names of all labs' network namespaces.
const Prefix = "kplan-lab-"

// Namespace is the name of the lab's network namespace. Labs of the same
// name in different homes differ.
func (n Node) Namespace() string {
	if n.Dir == filepath.Join("/var/lib/kplan-lab", n.Lab) {
		return Prefix + n.Lab
	}
	sum := sha256.Sum256([]byte(n.Dir))
	return Prefix + n.Lab + "-" + hex.EncodeToString(sum[:4])
}

// Room is where containerd starts: the lab's network, and a view of the file
// system in which the folders that Kubernetes and containerd insist on are
// the lab's own. All mounts made there vanish with its last process.
func (n Node) Room() netns.Room {
	return netns.Room{Net: netns.Path(n.Namespace()), Mounts: []netns.Mount{
		{To: "/run/netns"},      // pods' network namespaces
		{To: "/run/containerd"}, // shims' sockets, runc's state
		{To: "/var/lib/cni"},
		{From: n.file("kubelet"), To: "/var/lib/kubelet"},
		{From: n.file("pods"), To: "/var/log/pods"},
		{To: "/var/log/containers"},
	}}
}

// Write makes the folders and configuration files. credentials is the folder
// of the lab's certificates.
func (n Node) Write(credentials string) error {
	for _, dir := range []string{"kubelet", "pods", "cni", "containerd"} {
		if err := os.MkdirAll(n.file(dir), 0o755); err != nil {
			return err
		}
	}
	values := map[string]string{
		"Address": Address, "CNI": n.file("cni"), "Credentials": credentials,
		"DNS": ServiceDNS, "Domain": Domain, "Network": n.Namespace(), "Opt": n.file("opt"),
		"Pause": PauseImage, "PodRange": podsOfNode, "Root": n.file("containerd"),
		"Run": n.file("run"), "Socket": n.Socket(),
	}
	for path, text := range map[string]string{
		n.Containerd():                containerdConfig,
		n.Kubelet():                   kubeletConfig,
		n.file("cni/10-lab.conflist"): cniConfig,
	} {
		var buffer bytes.Buffer
		if err := template.Must(template.New(path).Parse(text)).Execute(&buffer, values); err != nil {
			return err
		}
		if err := os.WriteFile(path, buffer.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// restrict_oom_score_adj: else runc fails with "can't get final child's PID
// from pipe: EOF" where the score must not be lowered.
const containerdConfig = `version = 2
root = "{{.Root}}"
state = "{{.Run}}"

[grpc]
  address = "{{.Socket}}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Opt}}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{{.CNI}}"
`

// cgroupsPerQOS and enforceNodeAllocatable: the lab shares the machine's
// control groups and must not claim the root. failCgroupV1: works on both.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Address}}
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: "{{.Credentials}}/ca.crt"}
authorization: {mode: Webhook}
tlsCertFile: "{{.Credentials}}/kubelet-server.crt"
tlsPrivateKeyFile: "{{.Credentials}}/kubelet-server.key"
clusterDNS: [{{.DNS}}]
clusterDomain: {{.Domain}}
containerRuntimeEndpoint: "unix://{{.Socket}}"
cgroupDriver: cgroupfs
cgroupRoot: /
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1%", nodefs.available: "1%", nodefs.inodesFree: "1%", imagefs.available: "1%"}
nodeStatusUpdateFrequency: 10s
registerNode: true
resolvConf: ""
serializeImagePulls: false
staticPodPath: ""
`

const cniConfig = `{
  "cniVersion": "0.4.0",
  "name": "{{.Network}}",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "pods0",
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/containerd/ipam",
        "ranges": [[{"subnet": "{{.PodRange}}"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
