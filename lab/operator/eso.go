package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const groupESO = "external-secrets.io"

// errStore is a store that cannot be used yet; the ExternalSecret says so and
// is tried again.
var errStore = errors.New("could not get secret store")

// validateStore makes a SecretStore or ClusterSecretStore Ready, with the
// reason and message of External Secrets (pkg/controllers/secretstore).
func validateStore(_ context.Context, c *controller, _ *unstructured.Unstructured, age time.Duration) (map[string]any, time.Duration, error) {
	if left := c.cfg.ReadyDelay - age; left > 0 {
		return map[string]any{}, left, nil // the real one has no status until it is validated
	}
	return map[string]any{
		"capabilities": "ReadWrite",
		"conditions":   []any{condition("Ready", true, "Valid", "store validated")},
	}, 0, nil
}

// syncSecret makes an ExternalSecret's target Secret. It knows the providers
// that need nothing outside the cluster: fake and kubernetes.
func syncSecret(ctx context.Context, c *controller, obj *unstructured.Unstructured, age time.Duration) (map[string]any, time.Duration, error) {
	data, err := c.external(ctx, obj)
	if err != nil {
		return map[string]any{
			"conditions": []any{condition("Ready", false, "SecretSyncedError", err.Error())},
		}, time.Second, nil
	}
	if left := c.cfg.ReadyDelay - age; left > 0 {
		return map[string]any{}, left, nil
	}
	if err := c.writeTarget(ctx, obj, data); err != nil {
		return nil, 0, err
	}
	status := map[string]any{
		"syncedResourceVersion": fmt.Sprintf("%d-lab", obj.GetGeneration()),
		"binding":               map[string]any{"name": targetName(obj)},
		"conditions":            []any{condition("Ready", true, "SecretSynced", "Secret was synced")},
	}
	status["refreshTime"] = rfc3339(time.Now())
	if old, _, _ := unstructured.NestedMap(obj.Object, "status"); old["syncedResourceVersion"] == status["syncedResourceVersion"] && old["refreshTime"] != nil {
		status["refreshTime"] = old["refreshTime"] // a sync without news is not written
	}
	return status, 0, nil
}

func targetName(obj *unstructured.Unstructured) string {
	return cmp.Or(field(obj.Object, "spec", "target", "name"), obj.GetName())
}

// external collects the data that spec.data and spec.dataFrom[].extract name.
func (c *controller) external(ctx context.Context, obj *unstructured.Unstructured) (map[string][]byte, error) {
	source, err := c.store(ctx, obj)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	from, _, _ := unstructured.NestedSlice(obj.Object, "spec", "dataFrom")
	for _, f := range from {
		all, err := source(ctx, field(f, "extract", "key"))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, all)
	}
	data, _, _ := unstructured.NestedSlice(obj.Object, "spec", "data")
	for _, d := range data {
		key, property := field(d, "remoteRef", "key"), field(d, "remoteRef", "property")
		all, err := source(ctx, key)
		if err != nil {
			return nil, err
		}
		value, ok := all[property]
		if !ok {
			return nil, fmt.Errorf("property %s does not exist in key %s", property, key)
		}
		out[field(d, "secretKey")] = value
	}
	return out, nil
}

// field is a text inside an object, "" when it is not there.
func field(object any, path ...string) string {
	m, _ := object.(map[string]any)
	s, _, _ := unstructured.NestedString(m, path...)
	return s
}

// reader returns all properties of one key of a provider.
type reader func(ctx context.Context, key string) (map[string][]byte, error)

// store finds the ExternalSecret's store, which must be Ready.
func (c *controller) store(ctx context.Context, obj *unstructured.Unstructured) (reader, error) {
	name := field(obj.Object, "spec", "secretStoreRef", "name")
	resource, namespace := "secretstores", obj.GetNamespace()
	if field(obj.Object, "spec", "secretStoreRef", "kind") == "ClusterSecretStore" {
		resource, namespace = "clustersecretstores", ""
	}
	gvr := schema.GroupVersionResource{Group: groupESO, Version: obj.GroupVersionKind().Version, Resource: resource}
	s, err := c.client.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStore, err)
	}
	if !settled(s) {
		return nil, fmt.Errorf("%w: %s %q is not ready", errStore, s.GetKind(), name)
	}
	if remote, found, _ := unstructured.NestedString(s.Object, "spec", "provider", "kubernetes", "remoteNamespace"); found {
		return func(ctx context.Context, key string) (map[string][]byte, error) {
			secret, err := c.secrets.get(ctx, remote, key)
			if err != nil {
				return nil, err
			}
			if secret == nil {
				return nil, fmt.Errorf("secret %s/%s does not exist", remote, key)
			}
			return secretData(secret)
		}, nil
	}
	if entries, found, _ := unstructured.NestedSlice(s.Object, "spec", "provider", "fake", "data"); found {
		return func(_ context.Context, key string) (map[string][]byte, error) { return fakeValue(entries, key) }, nil
	}
	return nil, fmt.Errorf("%w: %s %q: this stand-in knows the providers kubernetes and fake", errStore, s.GetKind(), name)
}

// fakeValue reads the fake provider; a value that is a JSON object has
// properties, any other has the empty property.
func fakeValue(entries []any, key string) (map[string][]byte, error) {
	for _, e := range entries {
		m, _ := e.(map[string]any)
		if m["key"] != key {
			continue
		}
		value, _ := m["value"].(string)
		out := map[string][]byte{"": []byte(value)}
		var properties map[string]string
		if json.Unmarshal([]byte(value), &properties) == nil {
			for k, v := range properties {
				out[k] = []byte(v)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("key %q does not exist in the fake provider", key)
}

// writeTarget creates or updates the target Secret.
func (c *controller) writeTarget(ctx context.Context, obj *unstructured.Unstructured, data map[string][]byte) error {
	delete(data, "")
	kind := cmp.Or(field(obj.Object, "spec", "target", "template", "type"), "Opaque")
	want := newSecret(obj.GetNamespace(), targetName(obj), kind, data)
	if field(obj.Object, "spec", "target", "creationPolicy") != "Orphan" {
		yes := true
		want.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}})
	}
	err := c.secrets.create(ctx, want)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := c.secrets.get(ctx, want.GetNamespace(), want.GetName())
	if err != nil || old == nil {
		return err
	}
	old.Object["data"] = want.Object["data"]
	old.SetOwnerReferences(want.GetOwnerReferences())
	return c.secrets.update(ctx, old)
}
