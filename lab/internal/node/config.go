// Package node holds what is particular to a machine that runs pods: the
// configuration of containerd, its network plugins, kubelet and kube-proxy,
// the folders they share, and how to end the pods that they leave.
//
// It starts nothing itself.
package node

import (
	"bytes"
	"crypto/sha256"
	"embed"
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

// Namespaces is where containerd starts: the lab's network, and a view of the file
// system in which the folders that Kubernetes and containerd insist on are
// the lab's own. All mounts made there vanish with its last process.
func (n Node) Namespaces() netns.Namespaces {
	return netns.Namespaces{Net: netns.Path(n.Namespace()), Mounts: []netns.Mount{
		{To: "/run/netns"},      // pods' network namespaces
		{To: "/run/containerd"}, // shims' sockets, runc's state
		{To: "/var/lib/cni"},
		{From: n.file("kubelet"), To: "/var/lib/kubelet"},
		{From: n.file("pods"), To: "/var/log/pods"},
		{To: "/var/log/containers"},
	}}
}

//go:embed containerd.toml kubelet.yaml cni.json
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*"))

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
	for path, name := range map[string]string{
		n.Containerd():                "containerd.toml",
		n.Kubelet():                   "kubelet.yaml",
		n.file("cni/10-lab.conflist"): "cni.json",
	} {
		var buffer bytes.Buffer
		if err := templates.ExecuteTemplate(&buffer, name, values); err != nil {
			return err
		}
		if err := os.WriteFile(path, buffer.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}
