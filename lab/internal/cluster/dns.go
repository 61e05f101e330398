package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/lab/internal/api"
	"github.com/kplan-dev/kplan/lab/internal/node"
)

const dnsImage = "kplan.dev/lab/coredns:1"

// dnsObjects is cluster DNS as kubeadm installs it: the same names and
// labels, less replicas and upstream.
var dnsObjects = []struct{ path, text string }{
	{"/api/v1/namespaces/kube-system/serviceaccounts/coredns", `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects:
- {kind: ServiceAccount, name: coredns, namespace: kube-system}
`},
	{"/api/v1/namespaces/kube-system/configmaps/coredns", `
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        health
        ready
        kubernetes DOMAIN in-addr.arpa ip6.arpa {
            pods insecure
            ttl 5
        }
        cache 5
        loadbalance
    }
`},
	{"/api/v1/namespaces/kube-system/services/kube-dns", `
apiVersion: v1
kind: Service
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {k8s-app: kube-dns, kubernetes.io/name: CoreDNS}
spec:
  clusterIP: ADDRESS
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
`},
	{"/apis/apps/v1/namespaces/kube-system/deployments/coredns", `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: coredns
  namespace: kube-system
  labels: {k8s-app: kube-dns}
spec:
  replicas: 1
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      dnsPolicy: Default
      tolerations: [{operator: Exists}]
      containers:
      - name: coredns
        image: IMAGE
        imagePullPolicy: Never
        args: [-conf, /etc/coredns/Corefile]
        ports:
        - {name: dns, containerPort: 53, protocol: UDP}
        - {name: dns-tcp, containerPort: 53, protocol: TCP}
        readinessProbe:
          httpGet: {path: /ready, port: 8181}
          periodSeconds: 1
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}
        volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: coredns}}]
`},
}

// applyDNS creates the cluster's DNS server.
func applyDNS(ctx context.Context, client *api.Client) error {
	fill := strings.NewReplacer("DOMAIN", node.Domain, "ADDRESS", node.ServiceDNS, "IMAGE", dnsImage)
	for _, object := range dnsObjects {
		if err := client.Apply(ctx, object.path, []byte(fill.Replace(object.text))); err != nil {
			return fmt.Errorf("cluster DNS: %w", err)
		}
	}
	return nil
}
