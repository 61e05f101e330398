package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// client has the administrator's access to the API server. It does not retry:
// callers poll.
type client struct{ rest *rest.RESTClient }

func (l *Lab) client() (client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return client{}, err
	}
	config.Timeout = 5 * time.Second
	config.QPS = -1
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()) // all is read and sent as it is
	c, err := rest.UnversionedRESTClientFor(config)
	return client{c}, err
}

// get reads path, which may have a query.
func (c client) get(ctx context.Context, path string) ([]byte, error) {
	data, err := c.rest.Get().RequestURI(path).MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// await polls until there is something at path.
func (c client) await(ctx context.Context, what, path string) error {
	return await(ctx, what, func(ctx context.Context) error {
		_, err := c.get(ctx, path)
		return err
	})
}

// awaitReady polls until there is something in the list at path, and all is ready.
func (c client) awaitReady(ctx context.Context, what, path string) error {
	return await(ctx, what, func(ctx context.Context) error { return c.ready(ctx, path) })
}

// apply creates or changes the object at path, given as YAML, by server-side apply.
func (c client) apply(ctx context.Context, path string, yaml []byte) error {
	_, err := c.rest.Patch(types.ApplyYAMLPatchType).RequestURI(path).
		Param("fieldManager", "kplan-lab").Param("force", "true").Body(yaml).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ready returns an error unless there is something in the list at path, and all of
// it has a true Ready condition.
func (c client) ready(ctx context.Context, path string) error {
	data, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Status struct{ Conditions []metav1.Condition }
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("%s: none yet", path)
	}
	for _, item := range list.Items {
		if !meta.IsStatusConditionTrue(item.Status.Conditions, "Ready") {
			return fmt.Errorf("%s: not ready yet", path)
		}
	}
	return nil
}
