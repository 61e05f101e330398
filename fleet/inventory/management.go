package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/flight"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// answerWithin is how long a management cluster has for one answer.
const answerWithin = 30 * time.Second

// Options say how management clusters are reached.
type Options struct {
	// Clusters are those of the fleet file, by name. "" is that of the command line.
	Clusters map[string]plan.Cluster
	// Dir is the folder that paths in Clusters are relative to.
	Dir string
	// Flags are kubectl's own: kubeconfig, context, …
	Flags *genericclioptions.ConfigFlags
	// InCluster has the names of those of Clusters whose pod this is: their own
	// ServiceAccount is used, whatever Clusters says of them.
	InCluster map[string]bool
	// UserAgent names the program in the API server's audit log.
	UserAgent string
}

// Management are the clusters that know of the fleet's clusters. Its methods may be called
// by several goroutines; all share one client for each cluster.
type Management struct {
	Options

	flight flight.Group[*client]
	mu     sync.Mutex
	ready  map[string]*client
	known  map[string]*known // by path
}

// NewManagement asks nobody yet.
func NewManagement(o Options) *Management {
	return &Management{Options: o, ready: map[string]*client{}, known: map[string]*known{}}
}

// client asks one management cluster.
type client struct {
	about     string // names the cluster for people
	config    *rest.Config
	namespace string
	dynamic   dynamic.Interface
	core      *core.CoreV1Client
}

// Config says how one of the fleet's clusters is reached, and its default namespace.
func (m *Management) Config(ctx context.Context, name string) (*rest.Config, string, error) {
	c, err := m.client(ctx, name)
	if err != nil {
		return nil, "", err
	}
	return rest.CopyConfig(c.config), c.namespace, nil
}

// called names a cluster for people.
func called(name string) string {
	if name == "" {
		return "the cluster of the command line"
	}
	return "cluster " + name
}

// client connects to a management cluster, once.
func (m *Management) client(ctx context.Context, name string) (*client, error) {
	m.mu.Lock()
	c := m.ready[name]
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	if err := m.checkHolders(name); err != nil { // else its connection would wait for itself
		return nil, err
	}
	return m.flight.Do(ctx, name, func(ctx context.Context) (*client, error) {
		c, err := m.connect(ctx, name)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ready[name] = c
		return c, nil
	})
}

// checkHolders refuses a cluster whose kubeconfig is in a Secret of the cluster itself.
func (m *Management) checkHolders(name string) error {
	var path []string
	for {
		path = append(path, name)
		ref := m.Clusters[name].KubeconfigSecret
		if ref == nil || m.InCluster[name] {
			return nil
		}
		if name = ref.Cluster; slices.Contains(path, name) {
			return usage(fmt.Errorf("%s: its kubeconfig is in a Secret of the cluster itself: %s", called(name), strings.Join(append(path, name), " → ")), "")
		}
	}
}

// connect makes the client of a cluster.
func (m *Management) connect(ctx context.Context, name string) (*client, error) {
	config, namespace, err := m.config(ctx, name)
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent, config.WarningHandler = -1, m.UserAgent, rest.NoWarnings{}
	c := &client{about: called(name), config: config, namespace: cmp.Or(m.Clusters[name].Namespace, namespace, "default")}
	if c.dynamic, err = dynamic.NewForConfig(config); err == nil {
		c.core, err = core.NewForConfig(config)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("%s: its kubeconfig cannot be used: %w", c.about, err), "")
	}
	return c, nil
}

// config reads the kubeconfig of a cluster, where it is.
func (m *Management) config(ctx context.Context, name string) (*rest.Config, string, error) {
	if m.InCluster[name] {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", called(name), err)
		}
		return config, "", nil
	}
	spec, known := m.Clusters[name]
	if name != "" && !known {
		hint := "the fleet file has no clusters"
		if len(m.Clusters) > 0 {
			hint = "it has: " + strings.Join(slices.Sorted(maps.Keys(m.Clusters)), ", ")
		}
		return nil, "", usage(fmt.Errorf("the fleet file has no cluster %q", name), hint)
	}
	var (
		found *access
		err   error
	)
	switch {
	case spec.KubeconfigSecret != nil:
		return m.fromSecret(ctx, name, spec)
	case spec.Kubeconfig != "":
		found, err = fromFile(abs(m.Dir, spec.Kubeconfig), spec.Context)
	default:
		found, err = fromFlags(m.Flags, spec.Context)
	}
	if err != nil && name != "" {
		err = fmt.Errorf("cluster %s: %w", name, err)
	}
	if err != nil {
		return nil, "", err
	}
	return found.config, found.namespace, nil
}

// fromSecret reads the kubeconfig of a management cluster from a Secret of another.
func (m *Management) fromSecret(ctx context.Context, name string, spec plan.Cluster) (*rest.Config, string, error) {
	raw, err := m.secret(ctx, *spec.KubeconfigSecret)
	if err != nil {
		return nil, "", fmt.Errorf("cluster %s: %w", name, err)
	}
	p, err := raw.parse(spec.Context)
	if err != nil {
		return nil, "", fmt.Errorf("cluster %s: %w", name, err)
	}
	return p.config, p.namespace, nil
}

// do asks a management cluster. When that does not take the credentials they are read once
// more: they may have been renewed.
func (m *Management) do(ctx context.Context, name string, r request, ask func(context.Context, *client) error) error {
	for again := true; ; again = false {
		c, err := m.client(ctx, name)
		if err != nil {
			return err
		}
		err = c.within(ctx, ask)
		if again && apierrors.IsUnauthorized(err) {
			m.forget(name, c)
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return explain(err, c.about, r)
	}
}

// within bounds one request.
func (c *client) within(ctx context.Context, ask func(context.Context, *client) error) error {
	late := &lateError{}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, late)
	defer cancel()
	err := ask(ctx, c)
	if err != nil && context.Cause(ctx) == error(late) { //nolint:errorlint // it is this very value
		return late
	}
	return err
}

// forget has the client of a cluster made anew, unless somebody has done so.
func (m *Management) forget(name string, c *client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ready[name] == c {
		delete(m.ready, name)
	}
}

// usageError is a fault of what the user gave.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage tells the command line that the user's input is at fault.
func (e usageError) Usage() bool { return true }

// usage marks err as a fault of what the user gave.
func usage(err error, hint string) error { return usageError{runner.WithHint(err, hint)} }
