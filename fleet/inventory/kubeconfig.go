package inventory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// defaultKey is the key of a kubeconfig in a Secret, where nothing else is said.
const defaultKey = "value"

// Kubeconfigs reads the kubeconfigs of a fleet's clusters, each time that it is asked.
type Kubeconfigs struct{ *Management }

// Read returns the kubeconfig of a cluster, from its Secret or from this machine. One from
// a Secret, or from a file that the fleet file names, neither runs programs nor refers to
// files. One from this machine has in it what was in files, and may run programs when it is
// the user's own.
func (k *Kubeconfigs) Read(ctx context.Context, c fleet.Cluster) ([]byte, error) {
	if c.Access.Secret == nil {
		a, err := k.local(c.Access)
		if err != nil {
			return nil, err
		}
		return encode(a)
	}
	s, err := k.secret(ctx, *c.Access.Secret)
	if err != nil {
		return nil, err
	}
	if c.Access.ArgoCD {
		return s.argocd()
	}
	_, err = s.parse(c.Access.Context)
	if err != nil {
		return nil, err
	}
	return s.text()
}

// Pin returns what a kubeconfig says of where its cluster is: the address of the API server,
// and the SHA-256, in hex, of the certificates that are trusted there. That is "" for those
// of the system, and "insecure" when any are.
func Pin(kubeconfig []byte) (server, ca string, err error) {
	raw, used, err := pick(kubeconfig, "")
	if err != nil {
		return "", "", err
	}
	c := raw.Clusters[raw.Contexts[used].Cluster]
	switch {
	case c.InsecureSkipTLSVerify:
		ca = "insecure"
	case len(c.CertificateAuthorityData) > 0:
		sum := sha256.Sum256(c.CertificateAuthorityData)
		ca = hex.EncodeToString(sum[:])
	}
	return strings.TrimSuffix(c.Server, "/"), ca, nil
}

// secret is a Secret that was read.
type secret struct {
	name string // for people
	ref  plan.KeyRef
	data map[string][]byte
}

// secret reads a Secret of a management cluster by its name.
func (m *Management) secret(ctx context.Context, ref plan.KeyRef) (*secret, error) {
	if ref.Namespace == "" {
		c, err := m.client(ctx, ref.Cluster)
		if err != nil {
			return nil, err
		}
		ref.Namespace = c.namespace
	}
	var found *corev1.Secret
	r := request{verb: "get", resource: schema.GroupResource{Resource: "secrets"}, namespace: ref.Namespace, name: ref.Name}
	err := m.do(ctx, ref.Cluster, r, func(ctx context.Context, c *client) (err error) {
		found, err = c.core.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		return err
	})
	s := &secret{name: fmt.Sprintf("Secret %s/%s in %s", ref.Namespace, ref.Name, called(ref.Cluster)), ref: ref}
	if apierrors.IsNotFound(err) {
		return nil, &KubeconfigError{s.name, "it is not there", "the cluster may not be ready yet: wait until it is, or leave it out by select"}
	}
	if err != nil {
		return nil, err
	}
	s.data = found.Data
	return s, nil
}

// text is what the Secret has under its key. Without one that is value, or the only key.
func (s *secret) text() ([]byte, error) {
	key := s.ref.Key
	if key == "" {
		key = defaultKey
		if _, has := s.data[key]; !has && len(s.data) == 1 {
			for only := range s.data {
				key = only
			}
		}
	}
	text, has := s.data[key]
	if !has {
		return nil, &KubeconfigError{s.name, fmt.Sprintf("it has no key %q", key), "it has: " + cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.data)), ", "), "no keys at all")}
	}
	return text, nil
}

// parse reads the kubeconfig.
func (s *secret) parse(context string) (*access, error) {
	text, err := s.text()
	if err != nil {
		return nil, err
	}
	a, err := parse(text, context)
	if err != nil {
		return nil, &KubeconfigError{s.name, err.Error(), runner.HintOf(err)}
	}
	return a, nil
}

// encode writes a kubeconfig with one context, and with what is in its files.
func encode(a *access) ([]byte, error) {
	c := rest.CopyConfig(a.config)
	if err := rest.LoadTLSFiles(c); err != nil {
		return nil, usage(fmt.Errorf("kubeconfig cannot be used: %w", err), "")
	}
	const name = "cluster"
	cluster := clientcmdapi.Cluster{
		Server: c.Host, TLSServerName: c.ServerName, InsecureSkipTLSVerify: c.Insecure,
		CertificateAuthorityData: c.CAData, DisableCompression: c.DisableCompression, ProxyURL: proxyOf(c),
	}
	user := clientcmdapi.AuthInfo{
		ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Token: c.BearerToken, TokenFile: c.BearerTokenFile,
		Username: c.Username, Password: c.Password, Exec: c.ExecProvider, AuthProvider: c.AuthProvider,
		Impersonate: c.Impersonate.UserName, ImpersonateUID: c.Impersonate.UID,
		ImpersonateGroups: c.Impersonate.Groups, ImpersonateUserExtra: c.Impersonate.Extra,
	}
	if user.Token != "" {
		user.TokenFile = ""
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: &cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: &user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: a.namespace}},
		CurrentContext: name,
	})
}

// proxyOf is the proxy that a kubeconfig names; "" for none.
func proxyOf(c *rest.Config) string {
	if c.Proxy == nil {
		return ""
	}
	r, err := http.NewRequest(http.MethodGet, c.Host, http.NoBody)
	if err != nil {
		return ""
	}
	u, err := c.Proxy(r)
	if err != nil || u == nil {
		return ""
	}
	return u.String()
}
