// Package cluster is how the steps reach the clusters of a plan: kubeconfigs and
// credentials, one connection and one discovery cache for each cluster and run, and
// the clients of one step, each over a transport of its own.
//
// It does not hold requests for webhooks (package transport does, under a Session),
// does not wait for objects (package watch does), and never retries a write.
package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// How long the first request may take. A credential plugin may ask a person
// to log in, which takes longer.
const (
	connectTimeout      = 10 * time.Second
	interactiveTimeout  = 2 * time.Minute
	throttledQPS        = 50
	throttledBurst      = 300
	maxVersionBodyBytes = 64 << 10
)

// Outage is how long a step waits for an API server that the run has reached before:
// one that restarts, or whose network does.
const Outage = 2 * time.Minute

// recently is how long a cluster that answered is taken to be reachable.
const recently = 5 * time.Second

// Cluster is one API server for the length of one run: its address and
// credentials, and what all steps share. It is safe for concurrent use.
type Cluster struct {
	*Access
	*Shared
	discovery discovery.CachedDiscoveryInterface
	deferred  *restmapper.DeferredDiscoveryRESTMapper
	mapper    meta.RESTMapper // knows short names too

	// heard is when the API server last answered, in nanoseconds of Unix time.
	heard atomic.Int64
	// observed has for kinds whether their status has observedGeneration.
	observed sync.Map

	mu        sync.Mutex
	refreshed time.Time // when the discovery cache was last dropped
}

// Connect reads the kubeconfig that flags name, and connects to the cluster.
func Connect(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (*Cluster, error) {
	access, err := FromFlags(flags)
	if err != nil {
		return nil, err
	}
	return access.Connect(ctx, userAgent)
}

// Connect asks the API server for its version, so that a cluster which cannot
// be used is found out before a step works on it. userAgent names the program
// in the server's audit log. The access must not be used for another one.
//
// Client-side rate limiting is off where the server has API Priority and
// Fairness, which every server since Kubernetes 1.20 has unless it was turned
// off; the server says so by a header on each answer.
func (a *Access) Connect(ctx context.Context, userAgent string) (*Cluster, error) {
	config := a.config
	config.UserAgent = userAgent
	config.Timeout = 0 // watches last; contexts bound the rest
	config.QPS = -1    // the first requests decide
	config.WarningHandler = rest.NoWarnings{}

	c := &Cluster{Access: a}
	fair, err := c.preflight(ctx)
	if err != nil {
		return nil, err
	}
	if !fair {
		config.QPS, config.Burst = throttledQPS, throttledBurst
	}
	if c.Shared, err = NewShared(c.Config()); err != nil {
		return nil, err
	}
	return c, c.discover()
}

// Unconnected is a cluster that nobody can talk to, with a default namespace: what
// a step does can be checked with it as far as that takes no cluster.
func Unconnected(namespace string) *Cluster {
	c := &Cluster{Shared: &Shared{}, Access: &Access{
		// Port 0 is never listened at.
		config: &rest.Config{Host: "https://0.0.0.0:0"}, namespace: namespace,
		loader: clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), nil),
	}}
	if err := c.discover(); err != nil {
		panic(err) // the address above is good
	}
	return c
}

// discover makes what the steps ask for kinds.
func (c *Cluster) discover() error {
	config := c.Config()
	if c.Gate != nil {
		config.Wrap(func(base http.RoundTripper) http.RoundTripper {
			return &hold.Transport{Base: base, Gate: c.Gate, Outage: Outage}
		})
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making the discovery client: %w", err)
	}
	c.discovery = memory.NewMemCacheClient(client)
	c.deferred = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	c.mapper = restmapper.NewShortcutExpander(c.deferred, c.discovery, nil)
	return nil
}

// Reach asks the API server whether it is there, unless it answered something
// in the last seconds. The error names the cluster and the cause.
func (c *Cluster) Reach(ctx context.Context) error {
	if c.credentials != nil && c.credentials.hasMoved() {
		return &MovedError{c.what(), c.credentials.source.Name}
	}
	if time.Since(time.Unix(0, c.heard.Load())) < recently {
		return nil
	}
	_, err := c.preflight(ctx)
	return err
}

// preflight asks for /version once: it proves address, TLS and credentials,
// and reports whether the server has priority and fairness.
func (c *Cluster) preflight(ctx context.Context) (fair bool, err error) {
	bound := connectTimeout
	if c.config.ExecProvider != nil || c.config.AuthProvider != nil {
		bound = interactiveTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("no answer within %s", bound))
	defer cancel()

	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return false, runner.WithHint(fmt.Errorf("kubeconfig cannot be used: %w", err),
			"check the certificates and credentials in the kubeconfig")
	}
	url, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return false, runner.WithHint(fmt.Errorf("kubeconfig has a bad server address: %w", err),
			"check the cluster's server in the kubeconfig")
	}
	resp, body, err := get(ctx, client, url.JoinPath("version").String())
	if err == nil && resp.StatusCode == http.StatusUnauthorized && c.credentials == nil {
		// Only a refusal makes client-go run a credential plugin again, or read a
		// token's file; it hands the refusal on nevertheless. Keys read theirs anew.
		resp, body, err = get(ctx, client, url.JoinPath("version").String())
	}
	if err != nil {
		return false, c.unreachable(err)
	}
	return resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != "", c.judge(resp, body)
}

// get reads the start of what is at a URL.
func get(ctx context.Context, client *http.Client, url string) (resp *http.Response, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	if resp, err = client.Do(req); err == nil {
		defer resp.Body.Close()
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxVersionBodyBytes))
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return resp, body, err
}

// judge says what is wrong with an answer to the request for the version.
func (c *Cluster) judge(resp *http.Response, body []byte) error {
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return runner.WithHint(
			runner.Permanent(&RefusedError{Cluster: c.what()}),
			"they may have expired: log in again, then check with kubectl auth whoami",
		)
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusTooManyRequests:
		return nil // it is there, and knows us
	case resp.StatusCode != http.StatusOK:
		return runner.WithHint(
			&AnswerError{c.what(), fmt.Sprintf("answered %q when asked for its version", resp.Status)},
			"is this the address of a Kubernetes API server, and is it healthy? try kubectl get --raw /livez",
		)
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil || info.GitVersion == "" {
		return runner.WithHint(
			&AnswerError{c.what(), "answered, but not as a Kubernetes API server does"},
			"check the cluster's server in the kubeconfig",
		)
	}
	return nil
}

// Config is a copy of the base configuration, whose transport holds nothing.
func (c *Cluster) Config() *rest.Config { return c.configFor(nil) }

// configFor is a copy of the base configuration for some protocols of HTTP; nil
// means all.
func (c *Cluster) configFor(protocols []string) *rest.Config {
	config := rest.CopyConfig(c.config)
	config.NextProtos = protocols
	if c.credentials != nil {
		config.Wrap(func(http.RoundTripper) http.RoundTripper { return &renewing{c.credentials, protocols} })
	}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { return listening{c, base} })
	return config
}

// listening notes when the API server answers.
type listening struct {
	cluster *Cluster
	base    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l listening) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.base.RoundTrip(req)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		l.cluster.heard.Store(time.Now().UnixNano())
	}
	return resp, err
}

// Refresh drops what is known of the server's kinds; call it after a
// CustomResourceDefinition was established.
func (c *Cluster) Refresh() { c.refreshSince(time.Now()) }

// refreshSince is Refresh unless somebody else has done it after since: many
// waiters for new kinds cost one round of discovery between them.
func (c *Cluster) refreshSince(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshed.After(since) {
		return
	}
	c.refreshed = time.Now()
	c.deferred.Reset()
}

// Mapping finds the resource of a kind; without a version it is the group's
// preferred one. A kind that is not known is looked up once more with fresh
// discovery, so that it is found as soon as the server serves it. The error is
// a meta.NoKindMatchError when there is none, or says that the kind's group
// cannot be discovered at present.
func (c *Cluster) Mapping(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	var versions []string
	if gvk.Version != "" {
		versions = []string{gvk.Version}
	}
	return c.lookup(ctx, gvk.Group, func() (*meta.RESTMapping, error) {
		return c.deferred.RESTMappingWithContext(ctx, gvk.GroupKind(), versions...)
	})
}

// MappingFor finds the resource that a type argument of kubectl names:
// deployment, deploy, deployments.apps or certificates.v1.cert-manager.io.
func (c *Cluster) MappingFor(ctx context.Context, arg string) (*meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(strings.ToLower(arg))
	group := resource.Group
	if full != nil {
		group = full.Group
	}
	return c.lookup(ctx, group, func() (*meta.RESTMapping, error) {
		mapper := meta.ToRESTMapperWithContext(c.mapper)
		gvk, err := schema.GroupVersionKind{}, error(nil)
		if full != nil {
			gvk, err = mapper.KindForWithContext(ctx, *full)
		}
		if full == nil || meta.IsNoMatchError(err) {
			gvk, err = mapper.KindForWithContext(ctx, resource.WithVersion(""))
		}
		if err != nil {
			return nil, err
		}
		return c.deferred.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	})
}

// KindOf names the kind of a resource; "" when the API server does not tell. It asks
// only if it was never asked before, or serves that resource since a moment ago.
func (c *Cluster) KindOf(ctx context.Context, resource schema.GroupVersionResource) string {
	gvk, err := c.deferred.KindForWithContext(ctx, resource)
	if err != nil {
		return ""
	}
	return gvk.Kind
}

func (c *Cluster) lookup(ctx context.Context, group string, find func() (*meta.RESTMapping, error)) (*meta.RESTMapping, error) {
	began := time.Now()
	m, err := find()
	if meta.IsNoMatchError(err) {
		c.refreshSince(began)
		m, err = find()
	}
	if meta.IsNoMatchError(err) {
		// An aggregated API that is down looks like one that does not exist.
		_, _, discoveryErr := discovery.ToDiscoveryInterfaceWithContext(c.discovery).ServerGroupsAndResourcesWithContext(ctx)
		if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(discoveryErr); ok {
			for gv, why := range failed {
				if gv.Group == group {
					return nil, fmt.Errorf("the API group %s cannot be discovered at present: %w", gv, why)
				}
			}
		}
	}
	return m, err
}
