package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	validatingResource = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutatingResource   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	crdsResource       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// injectInterval is how soon a caBundle that somebody removed comes back.
const injectInterval = 500 * time.Millisecond

// injectLoop puts the CA where --inject-webhooks and --inject-crds say and
// keeps it there, as cert-manager's cainjector and External Secrets'
// cert-controller do.
func (o *operator) injectLoop(ctx context.Context) error {
	if err := o.certs.wait(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, o.cfg.InjectDelay); err != nil {
		return err
	}
	last := ""
	for {
		err := o.inject(ctx)
		o.state.injected.Store(err == nil)
		switch text := fmt.Sprint(err); {
		case text == last:
		case err != nil:
			o.log.Info("not injected yet", "error", err)
			last = text
		default:
			o.log.Info("CA injected")
			last = text
		}
		if err := sleep(ctx, injectInterval); err != nil {
			return err
		}
	}
}

// inject does one round and returns what is missing.
func (o *operator) inject(ctx context.Context) error {
	bundle := base64.StdEncoding.EncodeToString(*o.certs.ca.Load())
	var errs []error
	for _, name := range o.cfg.InjectWebhooks {
		found := false
		for _, r := range []schema.GroupVersionResource{validatingResource, mutatingResource} {
			err := o.edit(ctx, r, name, func(u *unstructured.Unstructured) error { return setBundles(u, bundle) })
			if apierrors.IsNotFound(err) {
				continue
			}
			found = true
			errs = append(errs, err)
		}
		if !found {
			errs = append(errs, fmt.Errorf("webhook configuration %q is not there", name))
		}
	}
	for _, name := range o.cfg.InjectCRDs {
		errs = append(errs, o.edit(ctx, crdsResource, name, func(u *unstructured.Unstructured) error { return o.setConversion(u, bundle) }))
	}
	return errors.Join(errs...)
}

// edit updates an object when change changes it.
func (o *operator) edit(ctx context.Context, r schema.GroupVersionResource, name string, change func(*unstructured.Unstructured) error) error {
	old, err := o.client.Resource(r).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := old.DeepCopy()
	if err := change(changed); err != nil {
		return fmt.Errorf("%s %q: %w", r.Resource, name, err)
	}
	if reflect.DeepEqual(old.Object, changed.Object) {
		return nil
	}
	_, err = o.client.Resource(r).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func setBundles(u *unstructured.Unstructured, bundle string) error {
	hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
	if err != nil {
		return err
	}
	for i := range hooks {
		hook, ok := hooks[i].(map[string]any)
		if !ok {
			return fmt.Errorf("webhooks[%d] is no object", i)
		}
		if err := unstructured.SetNestedField(hook, bundle, "clientConfig", "caBundle"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(u.Object, hooks, "webhooks")
}

// setConversion replaces whatever conversion the CRD has; External Secrets'
// chart ships a placeholder that points to the Service "kubernetes".
func (o *operator) setConversion(u *unstructured.Unstructured, bundle string) error {
	name, port, err := o.cfg.service()
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(u.Object, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{
				"caBundle": bundle,
				"service": map[string]any{
					"name": name, "namespace": o.cfg.Namespace, "path": "/convert", "port": port,
				},
			},
		},
	}, "spec", "conversion")
}

// endpointsReady is nil when the webhook's Service has a ready address.
func (o *operator) endpointsReady(ctx context.Context) error {
	name, _, err := o.cfg.service()
	if err != nil {
		return err
	}
	slices, err := o.client.Resource(endpointsResource).Namespace(o.cfg.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
	if err != nil {
		return err
	}
	for _, s := range slices.Items {
		endpoints, _, _ := unstructured.NestedSlice(s.Object, "endpoints")
		for _, e := range endpoints {
			m, _ := e.(map[string]any)
			if ready, _, _ := unstructured.NestedBool(m, "conditions", "ready"); ready {
				return nil
			}
		}
	}
	return fmt.Errorf("service %q has no ready endpoints", name)
}
