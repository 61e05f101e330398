package cluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cenkalti/backoff/v4"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kplan-dev/kplan/runner"
)

// discoverable bounds how long a kind may take from Established to being
// discovered; some 35 ms is usual with one API server.
const discoverable = 30 * time.Second

// Served waits until discovery knows the kinds of CustomResourceDefinitions
// that are established: the API server takes a moment from one to the other.
func (c *Cluster) Served(ctx context.Context, kinds []schema.GroupVersionKind) error {
	ctx, cancel := context.WithTimeoutCause(ctx, discoverable, &runner.TimeoutError{
		After: discoverable, For: "the API server to serve its new kinds",
	})
	defer cancel()
	wait := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(20*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0),
	), ctx)
	for _, kind := range kinds {
		err := backoff.Retry(func() error {
			_, err := c.Mapping(ctx, kind)
			if err != nil && !meta.IsNoMatchError(err) {
				return backoff.Permanent(err)
			}
			return err
		}, wait)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Serves lists what the API server serves, from the shared cache, and its
// version. What an API service does not tell is left out.
func (c *Cluster) Serves(ctx context.Context) (lists []*metav1.APIResourceList, gitVersion string, err error) {
	served := discovery.ToDiscoveryInterfaceWithContext(c.discovery)
	v, err := served.ServerVersionWithContext(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("reading the cluster's version: %w", err)
	}
	_, lists, err = served.ServerGroupsAndResourcesWithContext(ctx)
	if len(lists) == 0 && err != nil {
		return nil, "", fmt.Errorf("reading what the cluster serves: %w", err)
	}
	return lists, v.GitVersion, nil
}

// ServesAll lists what the API server serves, as it was at most a few seconds ago. It
// fails when an API service does not tell its kinds: what there is of them nobody can
// know.
func (c *Cluster) ServesAll(ctx context.Context) ([]*metav1.APIResourceList, error) {
	c.refreshSince(time.Now().Add(-recently))
	_, lists, err := discovery.ToDiscoveryInterfaceWithContext(c.discovery).ServerGroupsAndResourcesWithContext(ctx)
	if _, partial := discovery.GroupDiscoveryFailedErrorGroups(err); partial {
		err = runner.WithHint(err, "see kubectl get apiservices: start again what serves it, or delete the API service if that is gone for good")
	}
	if err != nil {
		return nil, err
	}
	return lists, nil
}
