package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var (
	secretsResource   = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	endpointsResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// secrets reads and writes Secrets.
type secrets struct{ client dynamic.Interface }

func (s secrets) in(namespace string) dynamic.ResourceInterface {
	return s.client.Resource(secretsResource).Namespace(namespace)
}

// get returns nil when there is none.
func (s secrets) get(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := s.in(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return u, err
}

func (s secrets) create(ctx context.Context, u *unstructured.Unstructured) error {
	_, err := s.in(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
	return err
}

func (s secrets) update(ctx context.Context, u *unstructured.Unstructured) error {
	_, err := s.in(u.GetNamespace()).Update(ctx, u, metav1.UpdateOptions{})
	return err
}

func newSecret(namespace, name, kind string, data map[string][]byte) *unstructured.Unstructured {
	encoded := make(map[string]any, len(data))
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString(v)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": kind, "data": encoded}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// secretData decodes a Secret's data and leaves empty values out.
func secretData(u *unstructured.Unstructured) (map[string][]byte, error) {
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	maps.DeleteFunc(s.Data, func(_ string, v []byte) bool { return len(v) == 0 })
	return s.Data, nil
}
