package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	groupCertManager = "cert-manager.io"
	injectFrom       = groupCertManager + "/inject-ca-from"        // a Certificate, as NAMESPACE/NAME
	injectFromSecret = groupCertManager + "/inject-ca-from-secret" // a Secret, likewise
)

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
