package cluster

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/lab/internal/file"
	"github.com/kplan-dev/kplan/lab/internal/node"
	"github.com/kplan-dev/kplan/lab/internal/pki"
)

// subjects lists all certificates of a lab by file name. The names and groups
// are those of Kubernetes's own roles: kubernetes.io/docs, "PKI certificates
// and requirements".
var subjects = map[string]pki.Subject{
	"admin":              {User: "kplan-lab-admin", Groups: []string{"system:masters"}},
	"controller-manager": {User: "system:kube-controller-manager"},
	"scheduler":          {User: "system:kube-scheduler"},
	"proxy":              {User: "system:kube-proxy"},
	"kubelet":            {User: "system:node:" + node.Name, Groups: []string{"system:nodes"}},
	"kubelet-client":     {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
	"front-proxy":        {User: "front-proxy-client"},
	"kubelet-server":     {User: node.Name, Hosts: []string{node.Name, node.Address}},
	"apiserver": {User: "kube-apiserver", Hosts: []string{
		"127.0.0.1", "localhost", node.Address, node.ServiceAPI,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + node.Domain,
	}},
}

// writeCredentials makes the lab's certificates and kubeconfig files.
func writeCredentials(l *Lab) error {
	dir := l.credential("")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	authority, err := pki.NewAuthority("kplan-lab-" + l.Name)
	if err != nil {
		return err
	}
	tokens, err := pki.NewKeys()
	if err != nil {
		return err
	}
	if err := errors.Join(authority.Write(dir, "ca"), tokens.Write(dir, "tokens")); err != nil {
		return err
	}
	for name, subject := range subjects {
		pair, err := authority.Sign(subject)
		if err != nil {
			return fmt.Errorf("certificate %s: %w", name, err)
		}
		if err := pair.Write(dir, name); err != nil {
			return err
		}
		switch name {
		case "controller-manager", "scheduler", "proxy", "kubelet":
			err = writeKubeconfig(l.Name, l.kubeconfigOf(name), l.inside(), name, authority.Cert, pair)
		case "admin":
			err = writeKubeconfig(l.Name, l.Kubeconfig(), l.Server(), name, authority.Cert, pair)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a file that stands alone. Names are long enough not
// to be YAML's booleans (n, y, on, off).
func writeKubeconfig(lab, path, server, user string, ca []byte, pair pki.Pair) error {
	name := "kplan-lab-" + lab
	user = name + "-" + user
	data, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}},
	})
	if err != nil {
		return err
	}
	return file.Write(path, data)
}
