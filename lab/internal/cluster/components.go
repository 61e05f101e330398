package cluster

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/kplan-dev/kplan/lab/internal/debian"
	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
	"github.com/kplan-dev/kplan/lab/internal/process"
)

// Names of components, as in records, logs and on the command line.
const (
	etcd              = "etcd"
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kubelet           = "kubelet"
	proxy             = "kube-proxy"
	containerd        = "containerd"
	serve             = "serve"
)

// Hidden subcommands of kplan-lab, which start it anew as something else.
const (
	ExecCommand  = "internal-exec"  // ExecCommand NAMESPACES PROGRAM ARGS...
	ServeCommand = "internal-serve" // ServeCommand DIR
)

// Components lists what a lab with that many nodes runs, in starting order.
func Components(nodes int) []string {
	if nodes == 0 {
		return []string{serve, etcd, apiserver, controllerManager}
	}
	return []string{serve, etcd, apiserver, containerd, controllerManager, scheduler, kubelet, proxy}
}

// Component finds a component by its name or the name without "kube-".
func (l *Lab) Component(name string) (string, error) {
	names := Components(l.Nodes)
	for _, known := range names {
		if name == known || "kube-"+name == known {
			return known, nil
		}
	}
	return "", &UsageError{fmt.Sprintf("no component %q in lab %s; there are %s", name, l.Name, strings.Join(names, ", "))}
}

// spec says how to start a component.
func (l *Lab) spec(name string) (process.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return process.Spec{}, err
	}
	var args []string
	spaces := netns.Namespaces{Net: netns.Path(l.node().Namespace())}
	switch name {
	case serve:
		args = []string{self, ServeCommand, l.Dir}
	case containerd:
		args, spaces = []string{debian.Find("containerd"), "--config", l.node().Containerd()}, l.node().Namespaces()
	default:
		args = append([]string{l.Kube, name}, arguments[name](l)...)
	}
	if name == kubelet {
		host, err := process.Find(l.records(), containerd)
		if err != nil {
			return process.Spec{}, err
		}
		spaces.Join = host.PID
	}
	if l.Nodes > 0 && name != serve {
		text, err := json.Marshal(spaces)
		if err != nil {
			return process.Spec{}, err
		}
		args = append([]string{self, ExecCommand, string(text)}, args...)
	}
	return process.Spec{Name: name, Args: args, Env: environment(), Log: l.Log(name)}, nil
}

// arguments gives those of each part of Kubernetes.
var arguments = map[string]func(*Lab) []string{
	etcd: etcdArgs, apiserver: apiserverArgs, controllerManager: controllerManagerArgs,
	scheduler: schedulerArgs, kubelet: kubeletArgs, proxy: proxyArgs,
}

// environment finds the node's programs even when a plain user's PATH is set,
// and keeps components away from proxies: nothing they call is behind one.
func environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin",
		"HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=", "NO_PROXY=*",
	}
}

// Sockets instead of ports: nobody else can reach etcd, and labs cannot
// collide. --unsafe-no-fsync: a lab does not outlive the machine.
func etcdArgs(l *Lab) []string {
	return []string{
		"--name=lab", "--data-dir=" + l.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		// Only members of a cluster use what is advertised, and it has one.
		"--listen-client-urls=" + l.etcdURL(), "--advertise-client-urls=http://localhost:2379",
		"--listen-peer-urls=unix://" + l.path("etcd-peer.sock"),
	}
}

func apiserverArgs(l *Lab) []string {
	args := []string{
		"--etcd-servers=" + l.etcdURL(),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + l.credential("ca.crt"),
		"--tls-cert-file=" + l.credential("apiserver.crt"), "--tls-private-key-file=" + l.credential("apiserver.key"),
		"--kubelet-certificate-authority=" + l.credential("ca.crt"),
		"--kubelet-client-certificate=" + l.credential("kubelet-client.crt"), "--kubelet-client-key=" + l.credential("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		// One authority signs clients and the front proxy, hence the name.
		"--requestheader-client-ca-file=" + l.credential("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.credential("front-proxy.crt"), "--proxy-client-key-file=" + l.credential("front-proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc." + node.Domain,
		"--service-account-key-file=" + l.credential("tokens.crt"), "--service-account-signing-key-file=" + l.credential("tokens.key"),
		"--service-cluster-ip-range=" + node.Services,
	}
	if l.Audit {
		args = append(args,
			"--audit-policy-file="+l.auditPolicy(), "--audit-log-path="+l.AuditLog(),
			"--audit-log-maxsize=1024")
	}
	if l.Nodes == 0 {
		// Loopback must not be advertised, and nobody needs the Service.
		return append(args, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.API),
			"--advertise-address="+node.Address, "--endpoint-reconciler-type=none")
	}
	return append(args, "--secure-port=6443", "--advertise-address="+node.Address)
}

func controllerManagerArgs(l *Lab) []string {
	config := l.kubeconfigOf("controller-manager")
	args := []string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--leader-elect=false", "--use-service-account-credentials=true",
		// It makes an account for each of its controllers when it starts; at
		// the default of 20 requests per second that alone takes four seconds.
		"--kube-api-qps=300", "--kube-api-burst=600",
		"--root-ca-file=" + l.credential("ca.crt"), "--service-account-private-key-file=" + l.credential("tokens.key"),
		"--cluster-signing-cert-file=" + l.credential("ca.crt"), "--cluster-signing-key-file=" + l.credential("ca.key"),
		"--service-cluster-ip-range=" + node.Services,
	}
	if l.Nodes == 0 {
		return append(args, "--secure-port=0")
	}
	return append(args, "--allocate-node-cidrs=true", "--cluster-cidr="+node.Pods)
}

func schedulerArgs(l *Lab) []string {
	return []string{"--leader-elect=false", "--kubeconfig=" + l.kubeconfigOf("scheduler")}
}

func kubeletArgs(l *Lab) []string {
	return []string{
		"--config=" + l.node().Kubelet(), "--kubeconfig=" + l.kubeconfigOf("kubelet"),
		"--hostname-override=" + node.Name, "--node-ip=" + node.Address,
	}
}

func proxyArgs(l *Lab) []string {
	return []string{
		"--kubeconfig=" + l.kubeconfigOf("proxy"), "--hostname-override=" + node.Name,
		"--proxy-mode=nftables", "--cluster-cidr=" + node.Pods, "--conntrack-max-per-core=0",
	}
}

//go:embed audit-policy.yaml
var auditPolicy []byte
