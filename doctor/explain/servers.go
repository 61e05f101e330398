package explain

import "regexp"

// servers are errors of clients that do not reach the API server, of etcd behind it, and of
// API servers that are aggregated to it.
var servers = []rule{
	{
		id: "discovery-incomplete", class: Unavailable, // k8s.io/client-go discovery
		has:     []string{"complete list of server apis", "unable to retrieve the complete list"},
		pattern: regexp.MustCompile(`complete list of server APIs: (?P<group>[\w.-]+)/(?P<version>\w+): (?P<reason>[^,;"]*)`),
		what:    "the server of {version}.{group}, which is aggregated to the API server, does not answer, so not all kinds are known",
		causes: []string{
			"the program behind the APIService (mostly metrics-server or an adapter) does not run",
			"the APIService was left behind by a release that is gone",
		},
		next: []string{"kubectl get apiservice {version}.{group} -o yaml", "kubectl get apiservices"},
	},
	{
		id: "no-kubeconfig", class: Misconfigured,
		has:     []string{"localhost", "127.0.0.1", "[::1]"},
		pattern: regexp.MustCompile(`(?:server |http://)(?:localhost|127\.0\.0\.1|\[::1\])(?::(?:8080|80)\b|/).*(?:refused|cannot assign)`),
		what:    "the client has no kubeconfig, so it asks this machine, where no API server is",
		causes: []string{
			"KUBECONFIG is not set, or names a file that is not there: in CI, under sudo, or in Terraform before the cluster exists",
			"the cluster on this machine (kind, minikube, k3s) does not run",
		},
		next: []string{"kubectl config view --minify", "kubectl cluster-info"},
	},
	{
		id: "server-certificate", class: Misconfigured,
		has:     []string{"x509: ", "tls: "},
		pattern: regexp.MustCompile(`(?:[Uu]nable to connect to the server|[Cc]luster unreachable|server API group list|https?://[^\s"]+/(?:api|apis|version|openapi)\b).*?(?P<reason>x509: [^"]*|tls: .*)`),
		what:    "the client does not accept the API server's certificate",
		causes: []string{
			"the kubeconfig is of another cluster, or of one that was made anew with another CA",
			"a proxy between answers with a certificate of its own",
			"the address is not among the certificate's names, or the certificate is no longer valid",
		},
		next: []string{"kubectl config view --minify", "kubectl cluster-info"},
	},
	{
		id: "etcd-full", class: Exhausted,
		has:    []string{"database space exceeded"},
		what:   "etcd has no room left, so the cluster takes no more writes",
		causes: []string{"too many or too large objects, events or Helm records are stored", "old revisions are not compacted, or the space is not given back"},
		next:   []string{"kubectl get --raw /metrics | grep apiserver_storage_size_bytes", "etcdctl alarm list"},
	},
	{
		id: "object-too-large", class: Invalid,
		has:    []string{"etcdserver: request is too large", "request entity too large", "trying to send message larger than max"},
		what:   "the object is larger than the API server or etcd takes (about 1.5 MiB)",
		causes: []string{"a ConfigMap, Secret or CRD carries very much", "Helm's record of a release with large files"},
		next:   []string{"helm show all CHART"},
	},
	{
		id: "etcd", class: Unavailable,
		has:     []string{"etcdserver: "},
		pattern: regexp.MustCompile(`(?P<reason>etcdserver: [\w ,]+)`),
		what:    "the API server's store, etcd, did not answer in time; a write may have been done",
		causes: []string{
			"its disk is too slow, or shared with something that writes much",
			"its leader changed: a node of the control plane restarts, or the network between them is slow",
		},
		next: []string{"kubectl get --raw '/readyz?verbose'", "kubectl get pods -n kube-system -l component=etcd"},
	},
	{
		id: "server-unreachable", class: Unavailable,
		has:     []string{"unable to connect to the server", "cluster unreachable", "the connection to the server", "server api group list", "/apis", "/api/v1", "/version"},
		pattern: regexp.MustCompile(`(?:[Uu]nable to connect to the server: (?P<reason>.*)|[Cc]luster unreachable: (?P<reason2>.*)|connection to the server (?P<server>[\w.:-]+) was refused|couldn't get current server API group list: (?P<reason3>.*)|https://[^\s"]+/(?:api/v1|apis|version)\b[^\s"]*"?: (?P<reason4>(?:dial tcp|read tcp|net/http|EOF|context deadline|http2|unexpected EOF|proxyconnect).*))`),
		what:    "the API server[ {server}] cannot be reached",
		causes: []string{
			"it does not run, or is restarted or updated",
			"the network is closed: a VPN is off, a firewall or an allow list is between",
			"the kubeconfig's address is wrong, or of a cluster that is gone",
		},
		next: []string{"kubectl cluster-info", "kubectl config view --minify"},
	},
}
