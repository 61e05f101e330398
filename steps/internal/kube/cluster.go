// Package kube is how the steps talk to a cluster: one discovery cache and one
// REST mapper per cluster and run, the clients of one step (each over a
// transport of its own), waiting for objects by watch, judging whether an
// object is ready, and errors with hints.
//
// It does not hold requests for webhooks (package webhook does, as a transport
// that a Session is given), knows nothing of plans, and never retries a write.
package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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

	"github.com/kplan-dev/kplan/runner"
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

// Cluster is one API server for the length of one run: its address and
// credentials, and what all steps share. It is safe for concurrent use.
type Cluster struct {
	config    *rest.Config
	loader    clientcmd.ClientConfig
	namespace string
	context   string
	discovery discovery.CachedDiscoveryInterface
	deferred  *restmapper.DeferredDiscoveryRESTMapper
	mapper    meta.RESTMapper // knows short names too

	mu        sync.Mutex
	refreshed time.Time // when the discovery cache was last dropped
}

// Connect reads the kubeconfig that flags name and asks the API server for its
// version, so that a cluster which cannot be used is found out before the
// first step starts. userAgent names the program in the server's audit log.
//
// Client-side rate limiting is off where the server has API Priority and
// Fairness, which every server since Kubernetes 1.20 has unless it was turned
// off; the server says so by a header on each answer.
func Connect(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (*Cluster, error) {
	access, err := load(flags)
	if err != nil {
		return nil, configError{err}
	}
	config := access.config
	config.UserAgent = userAgent
	config.Timeout = 0 // watches last; contexts bound the rest
	config.QPS = -1    // the first requests decide
	config.WarningHandler = rest.NoWarnings{}

	fair, err := preflight(ctx, config)
	if err != nil {
		return nil, err
	}
	if !fair {
		config.QPS, config.Burst = throttledQPS, throttledBurst
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	c := &Cluster{
		config:    config,
		loader:    flags.ToRawKubeConfigLoader(),
		namespace: access.namespace,
		context:   access.context,
		discovery: memory.NewMemCacheClient(client),
	}
	c.deferred = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	c.mapper = restmapper.NewShortcutExpander(c.deferred, c.discovery, nil)
	return c, nil
}

// preflight asks for /version once: it proves address, TLS and credentials,
// and tells whether the server has priority and fairness.
func preflight(ctx context.Context, config *rest.Config) (fair bool, err error) {
	bound := connectTimeout
	if config.ExecProvider != nil || config.AuthProvider != nil {
		bound = interactiveTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("no answer within %s", bound))
	defer cancel()

	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return false, runner.WithHint(fmt.Errorf("kubeconfig cannot be used: %w", err),
			"check the certificates and credentials in the kubeconfig")
	}
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return false, runner.WithHint(fmt.Errorf("kubeconfig has a bad server address: %w", err),
			"check the cluster's server in the kubeconfig")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.JoinPath("version").String(), nil)
	if err != nil {
		return false, fmt.Errorf("kubeconfig has a bad server address: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return false, unreachable(config.Host, err)
	}
	defer resp.Body.Close()
	fair = resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != ""
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxVersionBodyBytes))
	if err != nil {
		return false, unreachable(config.Host, err)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return false, runner.WithHint(
			runner.Permanent(fmt.Errorf("cluster %s does not accept the credentials in the kubeconfig", config.Host)),
			"they may have expired: log in again, then check with kubectl auth whoami")
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusTooManyRequests:
		return fair, nil // it is there, and knows us
	case resp.StatusCode != http.StatusOK:
		return false, runner.WithHint(
			fmt.Errorf("cluster %s answered %q when asked for its version", config.Host, resp.Status),
			"is this the address of a Kubernetes API server, and is it healthy? try kubectl get --raw /livez")
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil || info.GitVersion == "" {
		return false, runner.WithHint(
			fmt.Errorf("cluster %s answered, but not as a Kubernetes API server does", config.Host),
			"check the cluster's server in the kubeconfig")
	}
	return fair, nil
}

// About names the cluster for people: "context kind-x, https://127.0.0.1:6443".
// What an address may hold of credentials is left out.
func (c *Cluster) About() string {
	server := c.config.Host
	if u, _, err := rest.DefaultServerUrlFor(c.config); err == nil {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		server = strings.TrimSuffix(u.String(), "/")
	}
	if c.context == "" {
		return server
	}
	return "context " + c.context + ", " + server
}

// Namespace is the default namespace: that of --namespace, else of the context.
func (c *Cluster) Namespace() string { return c.namespace }

// Config is a copy of the base configuration, whose transport holds nothing.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Refresh drops what is known of the server's kinds; call it after a
// CustomResourceDefinition was established.
func (c *Cluster) Refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshed = time.Now()
	c.deferred.Reset()
}

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
