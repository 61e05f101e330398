package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kplan-dev/kplan/internal/flight"
	"github.com/kplan-dev/kplan/runner"
)

// readTimeout bounds reading a kubeconfig's Secret.
const readTimeout = 10 * time.Second

// credentials is the credentials in a kubeconfig that is kept in a Secret. They are
// read again when the cluster refuses them: they may have been renewed.
type credentials struct {
	cluster string // the plan's name of the cluster that they are for
	context string
	source  Secret

	flight flight.Group[*snapshot]

	mu      sync.Mutex
	current *snapshot
	reads   int  // how often the Secret was read again
	moved   bool // it names another server by now
}

// snapshot are what a kubeconfig says at one time.
type snapshot struct {
	raw                []byte
	config             *rest.Config
	loader             clientcmd.ClientConfig
	namespace, context string

	mu         sync.Mutex
	transports map[string]http.RoundTripper // by protocols
}

// transport sends requests with the keys. Those of the same keys share
// connections, unless a proxy is in between (k8s.io/client-go/transport/cache.go).
func (k *snapshot) transport(protocols []string) (http.RoundTripper, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := strings.Join(protocols, ",")
	if rt := k.transports[id]; rt != nil {
		return rt, nil
	}
	config := rest.CopyConfig(k.config)
	config.NextProtos = protocols
	rt, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	if k.transports == nil {
		k.transports = map[string]http.RoundTripper{}
	}
	k.transports[id] = rt
	return rt, nil
}

// read reads the kubeconfig. Errors are never about the user's input: the Secret
// may be another one for the next attempt.
func (k *credentials) read(ctx context.Context) (*snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("no answer within %s", readTimeout))
	defer cancel()
	raw, err := k.source.Read(ctx)
	if err != nil {
		return nil, err
	}
	parsed, err := k.parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.source.Name, err)
	}
	if err := k.source.pinned(parsed.config); err != nil {
		return nil, runner.Permanent(err)
	}
	return parsed, nil
}

func (k *credentials) parse(raw []byte) (*snapshot, error) {
	config, err := clientcmd.Load(raw)
	if err != nil {
		// The error may repeat what is in the Secret.
		return nil, runner.WithHint(errors.New("there is no kubeconfig in it"), "is it the right key? kubeconfig_secret.key says which one is read")
	}
	flags := genericclioptions.NewConfigFlags(false)
	flags.Context = &k.context
	if err := checkContext(flags, *config, inPlan); err != nil {
		return nil, err
	}
	name := contextOf(flags, *config)
	used := config.Contexts[name]
	if used == nil {
		return nil, errors.New("the kubeconfig has no contexts")
	}
	if err := withoutFiles(config.Clusters[used.Cluster], config.AuthInfos[used.AuthInfo]); err != nil {
		return nil, runner.Permanent(err)
	}
	loader := clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{}, nil)
	access, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	if err := withoutPlugins(access); err != nil {
		return nil, runner.Permanent(err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig has no usable namespace: %w", err)
	}
	return &snapshot{raw: raw, config: access, loader: loader, namespace: namespace, context: name}, nil
}

// now returns the keys in use, and how often they were read again.
func (k *credentials) now() (*snapshot, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current, k.reads
}

// hasMoved reports whether the kubeconfig names another server than at first.
func (k *credentials) hasMoved() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.moved
}

// renew reads the kubeconfig again, unless somebody has done so since it had been
// read so many times: requests that are refused side by side cost one look.
func (k *credentials) renew(ctx context.Context, reads int) (*snapshot, error) {
	return k.flight.Do(ctx, "", func(ctx context.Context) (*snapshot, error) {
		current, count := k.now()
		if count > reads {
			return current, nil
		}
		found, err := k.read(ctx)
		if err != nil {
			return nil, err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reads++
		switch {
		case bytes.Equal(found.raw, current.raw):
		case found.config.Host != current.config.Host:
			k.moved = true
		default:
			k.current = found
		}
		return k.current, nil
	})
}

// renewing is a transport with the credentials that may be renewed. A request that is
// refused for its credentials is sent once more if they have changed meanwhile.
type renewing struct {
	credentials *credentials
	protocols   []string
}

// RoundTrip implements http.RoundTripper. It gives a *RefusedError in place of an
// answer with status 401.
func (r *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := repeatable(req)
	if err != nil {
		return nil, err
	}
	used, reads := r.credentials.now()
	resp, err := r.send(used, req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	discard(resp)
	now, err := r.credentials.renew(req.Context(), reads)
	if err != nil {
		return nil, r.refused(used, err)
	}
	if now == used {
		return nil, r.refused(used, nil)
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err = r.send(now, again)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		discard(resp)
		return nil, r.refused(now, nil)
	}
	return resp, err
}

// send sends a request with keys.
func (r *renewing) send(k *snapshot, req *http.Request) (*http.Response, error) {
	rt, err := k.transport(r.protocols)
	if err != nil {
		return nil, fmt.Errorf("%s: the kubeconfig cannot be used: %w", r.credentials.source.Name, err)
	}
	return rt.RoundTrip(req)
}

func (r *renewing) refused(k *snapshot, cause error) error {
	a := Access{name: r.credentials.cluster, config: k.config}
	return &RefusedError{Cluster: a.what(), Source: r.credentials.source.Name, Cause: cause}
}

// repeatable is req with a body that can be sent twice.
func repeatable(req *http.Request) (*http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody || req.GetBody != nil {
		return req, nil
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	return req, nil
}

// discard ends an answer that nobody reads, so that its connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxVersionBodyBytes))
	_ = resp.Body.Close()
}

// RefusedError says that a cluster does not accept the credentials of its
// kubeconfig, which was read again. Another attempt may find newer ones.
type RefusedError struct {
	// Cluster names the cluster, Source what the kubeconfig is read from, for people; "" is the
	// user's own.
	Cluster, Source string
	// Cause is why the kubeconfig could not be read again; nil if it was.
	Cause error
}

func (e *RefusedError) Error() string {
	s := e.Cluster + " does not accept the credentials in the kubeconfig"
	if e.Source != "" {
		s += " of " + e.Source
	}
	if e.Cause != nil {
		s += ", which cannot be read again: " + e.Cause.Error()
	}
	return s
}

// Unwrap returns Cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Unauthorized tells the hold that the webhook is not to blame.
func (e *RefusedError) Unauthorized() bool { return true }

// Hint implements the interface that runner.HintOf looks for.
func (e *RefusedError) Hint() string {
	if hint := runner.HintOf(e.Cause); hint != "" {
		return hint
	}
	return "they were revoked or have expired: whatever makes the Secret must renew it"
}

// MovedError says that the kubeconfig of a cluster names another server than it
// did: the cluster was made anew.
type MovedError struct{ Cluster, Source string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s has moved: the kubeconfig of %s names another server", e.Cluster, e.Source)
}
