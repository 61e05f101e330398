package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"
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

const (
	groupCertManager = "cert-manager.io"
	injectFrom       = groupCertManager + "/inject-ca-from"        // a Certificate, as NAMESPACE/NAME
	injectFromSecret = groupCertManager + "/inject-ca-from-secret" // a Secret, likewise
)

// injectInterval is how soon a caBundle that somebody removed comes back.
const injectInterval = 500 * time.Millisecond

// injector puts CAs into webhook configurations and CRDs.
type injector struct{ *operator }

// keep does a round of injection again and again, since somebody may remove what was
// injected, and tells what is missing when that changes.
func (i injector) keep(ctx context.Context, round func(context.Context) error) error {
	if err := sleep(ctx, i.cfg.InjectDelay); err != nil {
		return err
	}
	last := ""
	for {
		err := round(ctx)
		if text := fmt.Sprint(err); text != last {
			i.log.Info("CA injected", "everywhere", err == nil, "missing", err)
			last = text
		}
		if err := sleep(ctx, injectInterval); err != nil {
			return err
		}
	}
}

// own does one round with the operator's own CA, to where --inject-webhooks and
// --inject-crds say, as External Secrets' cert-controller does. It returns what is
// missing.
func (i injector) own(ctx context.Context, ca []byte) error {
	bundle := base64.StdEncoding.EncodeToString(ca)
	var errs []error
	for _, name := range i.cfg.InjectWebhooks {
		found := false
		for _, r := range []schema.GroupVersionResource{validatingResource, mutatingResource} {
			err := i.edit(ctx, r, name, func(u *unstructured.Unstructured) error { return setBundles(u, bundle) })
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
	for _, name := range i.cfg.InjectCRDs {
		errs = append(errs, i.edit(ctx, crdsResource, name, func(u *unstructured.Unstructured) error { return i.setConversion(u, bundle) }))
	}
	return errors.Join(errs...)
}

// edit updates an object when change changes it.
func (i injector) edit(ctx context.Context, r schema.GroupVersionResource, name string, change func(*unstructured.Unstructured) error) error {
	old, err := i.client.Resource(r).Get(ctx, name, metav1.GetOptions{})
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
	_, err = i.client.Resource(r).Update(ctx, changed, metav1.UpdateOptions{})
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
func (i injector) setConversion(u *unstructured.Unstructured, bundle string) error {
	name, port, err := i.cfg.service()
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
					"name": name, "namespace": i.cfg.Namespace, "path": "/convert", "port": port,
				},
			},
		},
	}, "spec", "conversion")
}

// annotated does one round with the CAs that webhook configurations name by
// annotation, as cert-manager's cainjector does (cert-manager:
// pkg/controller/cainjector), and returns what is missing. It does not look at CRDs and
// API services.
func (i injector) annotated(ctx context.Context) error {
	var errs []error
	for _, r := range []schema.GroupVersionResource{validatingResource, mutatingResource} {
		list, err := i.client.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, u := range list.Items {
			ca, err := i.annotatedCA(ctx, u.GetAnnotations())
			if err == nil && len(ca) > 0 {
				bundle := base64.StdEncoding.EncodeToString(ca)
				err = i.edit(ctx, r, u.GetName(), func(u *unstructured.Unstructured) error { return setBundles(u, bundle) })
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", u.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// annotatedCA reads the CA that annotations name; nil when they name none.
func (i injector) annotatedCA(ctx context.Context, annotations map[string]string) ([]byte, error) {
	resource := secretsResource
	from, ok := annotations[injectFromSecret]
	if !ok {
		if from, ok = annotations[injectFrom]; !ok {
			return nil, nil
		}
		resource = schema.GroupVersionResource{Group: groupCertManager, Version: "v1", Resource: "certificates"}
	}
	namespace, name, _ := strings.Cut(from, "/")
	u, err := i.client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && resource != secretsResource {
		u, err = i.client.Resource(secretsResource).Namespace(namespace).Get(ctx, field(u.Object, "spec", "secretName"), metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	data, err := secretData(u)
	if err == nil && len(data["ca.crt"]) == 0 {
		err = fmt.Errorf("secret %s/%s has no ca.crt yet", namespace, u.GetName())
	}
	return data["ca.crt"], err
}
