package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/readiness"
)

// Session is the clients of one step. All its requests but those of discovery
// go through the transport that it was made with. It is safe for concurrent use.
type Session struct {
	// Cluster is what the session shares with those of other steps.
	Cluster *Cluster
	// Config makes more clients over the same transport; copy it before changing it.
	Config    *rest.Config
	Dynamic   dynamic.Interface
	Clientset kubernetes.Interface
	// Expect tells of a kind that is not served whether it may come yet; nil where
	// nobody knows.
	Expect func(context.Context, schema.GroupVersionKind) kinds.Prospect
	// FailFast says that what stalls is not waited for to the end.
	FailFast bool
	// Ready are the rules by which objects are ready.
	Ready *readiness.Rules
}

// Options say how a session differs from its cluster.
type Options struct {
	// Wrap puts a transport around the cluster's own: it sees every request of
	// the session. Credentials and user agent are added outside of it.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Warn takes the warnings that the API server sends with its answers, such
	// as of deprecated versions; they are dropped without it. It is called from
	// many goroutines.
	Warn func(message string)
	// Expect is the session's.
	Expect func(context.Context, schema.GroupVersionKind) kinds.Prospect
	// FailFast and Ready are the session's.
	FailFast bool
	Ready    *readiness.Rules
	// Fresh makes a connection for every request. A kept one leads to the same
	// API server of several for ever.
	Fresh bool
}

// Session makes the clients of one step.
func (c *Cluster) Session(o Options) (*Session, error) {
	config := c.Config()
	if o.Fresh {
		// HTTP/2 would share one connection among requests.
		config = c.configFor([]string{"http/1.1"})
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return closing{rt} })
	}
	if o.Wrap != nil {
		config.Wrap(o.Wrap)
	}
	if o.Warn != nil {
		config.WarningHandler = warnings(o.Warn)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the step's HTTP client: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making the step's dynamic client: %w", err)
	}
	set, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making the step's clientset: %w", err)
	}
	return &Session{Cluster: c, Config: config, Dynamic: dyn, Clientset: set, Expect: o.Expect, FailFast: o.FailFast, Ready: o.Ready}, nil
}

// closing sends every request over a connection that is closed afterwards, so
// that none is there to be used again.
type closing struct{ base http.RoundTripper }

func (c closing) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Close = true
	return c.base.RoundTrip(req)
}

// warnings hands on what the API server warns of; 299 is the only code that it
// uses for that (k8s.io/client-go/rest/warnings.go).
type warnings func(string)

func (w warnings) HandleWarningHeader(code int, _, message string) {
	if code == 299 && message != "" {
		w(message)
	}
}

// Resource is the client for the objects of a mapping; namespace is ignored
// for kinds that have none.
func (s *Session) Resource(m *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return s.Dynamic.Resource(m.Resource).Namespace(namespace)
	}
	return s.Dynamic.Resource(m.Resource)
}

// Getter is the session as Helm and kubectl's libraries want it, with the
// namespace of the release; empty means the cluster's default.
func (s *Session) Getter(namespace string) genericclioptions.RESTClientGetter {
	return &getter{session: s, namespace: cmp.Or(namespace, s.Cluster.namespace)}
}

type getter struct {
	session   *Session
	namespace string
}

var _ genericclioptions.RESTClientGetter = (*getter)(nil)

func (g *getter) ToRESTConfig() (*rest.Config, error) {
	return rest.CopyConfig(g.session.Config), nil
}

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.session.Cluster.discovery, nil
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) { return g.session.Cluster.mapper, nil }

func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig { return loader{g} }

// loader is the kubeconfig with the session's transport and namespace.
type loader struct{ g *getter }

func (l loader) RawConfig() (clientcmdapi.Config, error) {
	return l.g.session.Cluster.loader.RawConfig()
}

func (l loader) ClientConfig() (*rest.Config, error) { return l.g.ToRESTConfig() }

func (l loader) Namespace() (string, bool, error) { return l.g.namespace, true, nil }

func (l loader) ConfigAccess() clientcmd.ConfigAccess {
	return l.g.session.Cluster.loader.ConfigAccess()
}
