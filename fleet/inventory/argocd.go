package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

const (
	argoSelector = "argocd.argoproj.io/secret-type=cluster"
	// argoNamespace is where Argo CD has its Secrets, unless somebody says otherwise.
	argoNamespace = "argocd"
	// argoSkip is the annotation of what Argo CD leaves alone.
	argoSkip = "argocd.argoproj.io/skip-reconcile"
	// argoHere is the address of the cluster that Argo CD runs in.
	argoHere = "https://kubernetes.default.svc"
)

// argoConfig is the config of a cluster's Secret (argoproj/argo-cd,
// docs/operator-manual/declarative-setup.md).
type argoConfig struct {
	Username        string `json:"username"`
	Password        string `json:"password"`
	BearerToken     string `json:"bearerToken"`
	TLSClientConfig struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CAData     []byte `json:"caData"`
		CertData   []byte `json:"certData"`
		KeyData    []byte `json:"keyData"`
	} `json:"tlsClientConfig"`
	AWSAuthConfig      *struct{} `json:"awsAuthConfig"`
	ExecProviderConfig *struct {
		Command string `json:"command"`
	} `json:"execProviderConfig"`
	DisableCompression bool   `json:"disableCompression"`
	ProxyURL           string `json:"proxyUrl"`
}

// argocd finds clusters by the Secrets that Argo CD knows them by.
func (m *Management) argocd(ctx context.Context, s fleet.ObjectSource) (Found, error) {
	s.Namespace = cmp.Or(s.Namespace, argoNamespace)
	s.Selector = strings.TrimSuffix(argoSelector+","+s.Selector, ",")
	var found Found
	err := m.pages(ctx, s, schema.GroupResource{Resource: "secrets"}, func(ctx context.Context, c *client, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.Secrets(s.Namespace).List(ctx, o)
	}, func(item runtime.Object) {
		if o, ok := item.(*corev1.Secret); ok {
			found.argocd(s.Cluster, o)
		}
	})
	if err == nil && len(found.Clusters)+len(found.Refused)+len(found.Notes) == 0 {
		found.Notes = append(found.Notes, Note{
			Cluster: "-", Source: fleet.Source{Kind: KindArgoCD, Cluster: s.Cluster},
			Why: fmt.Sprintf("no Secret in namespace %s of %s has the labels %s", s.Namespace, called(s.Cluster), s.Selector),
		})
	}
	return found, err
}

// argocd takes in a Secret.
func (f *Found) argocd(cluster string, o *corev1.Secret) {
	id := o.Namespace + "/" + o.Name
	c := fleet.Cluster{
		Name: cmp.Or(strings.TrimSpace(string(o.Data["name"])), id), Namespace: o.Namespace, Labels: o.Labels, Annotations: shown(o.Annotations),
		Source: fleet.Source{Kind: KindArgoCD, Cluster: cluster, Object: "Secret/" + id},
		Access: fleet.Access{Secret: &plan.KeyRef{Cluster: cluster, Namespace: o.Namespace, Name: o.Name}, ArgoCD: true},
		Paused: o.Annotations[argoSkip] == "true",
	}
	switch {
	case o.DeletionTimestamp != nil:
		f.Notes = append(f.Notes, Note{c.Name, c.Source, "its Secret is being deleted"})
		return
	case strings.TrimSuffix(string(o.Data["server"]), "/") == argoHere:
		f.Notes = append(f.Notes, Note{c.Name, c.Source, "it is the cluster that Argo CD runs in, and its Secret has no credentials; to take it name its context under contexts or list"})
		return
	}
	s := secret{name: fmt.Sprintf("Secret %s in %s", id, called(cluster)), data: o.Data}
	if _, err := s.argocd(); err != nil {
		f.Refused = append(f.Refused, Refused{c, err})
		return
	}
	f.Clusters = append(f.Clusters, c)
}

// argocd makes a kubeconfig of a Secret of Argo CD.
func (s *secret) argocd() ([]byte, error) {
	fault := func(why, hint string) error { return &KubeconfigError{s.name, why, hint} }
	server := strings.TrimSpace(string(s.data["server"]))
	if server == "" {
		return nil, fault("it has no key server", "Argo CD wants one too: see argocd cluster list")
	}
	var in argoConfig
	if text := s.data["config"]; len(text) > 0 {
		if err := json.Unmarshal(text, &in); err != nil { // the error may repeat what is in it
			return nil, fault("its config is no JSON of the form that Argo CD has", "")
		}
	}
	if err := in.refused(); err != nil {
		return nil, fault(err.Error(), runner.HintOf(err))
	}
	const name = "cluster"
	cluster := clientcmdapi.Cluster{
		Server: server, TLSServerName: in.TLSClientConfig.ServerName, InsecureSkipTLSVerify: in.TLSClientConfig.Insecure,
		CertificateAuthorityData: in.TLSClientConfig.CAData, DisableCompression: in.DisableCompression, ProxyURL: in.ProxyURL,
	}
	if cluster.InsecureSkipTLSVerify {
		cluster.CertificateAuthorityData = nil // clients refuse both
	}
	user := clientcmdapi.AuthInfo{
		Token: in.BearerToken, Username: in.Username, Password: in.Password,
		ClientCertificateData: in.TLSClientConfig.CertData, ClientKeyData: in.TLSClientConfig.KeyData,
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: &cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: &user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fault("no kubeconfig can be made of it", "")
	}
	return text, nil
}

// refused says why credentials cannot be used.
func (in *argoConfig) refused() error {
	const hint = "register the cluster with a token or a client certificate (argocd cluster add), or leave it out by select"
	switch {
	case in.AWSAuthConfig != nil:
		return runner.WithHint(errors.New("it has awsAuthConfig, for which Argo CD runs a program of AWS; kplan runs none"), hint)
	case in.ExecProviderConfig != nil:
		return runner.WithHint(fmt.Errorf("it would run the program %q for its credentials (execProviderConfig); nothing runs because a Secret says so", in.ExecProviderConfig.Command), hint)
	case in.BearerToken == "" && in.Username == "" && len(in.TLSClientConfig.CertData) == 0:
		return runner.WithHint(errors.New("its config has no credentials: neither bearerToken, nor username, nor tlsClientConfig.certData"), hint)
	}
	return nil
}
