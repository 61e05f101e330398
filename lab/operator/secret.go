package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	secretsResource   = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	endpointsResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// makeCertificate uses the pair in the Secret, or makes one and stores it
// there. The Secret may exist and be empty, as in External Secrets' chart.
func (o *operator) makeCertificate(ctx context.Context) error {
	service, _, err := o.cfg.service()
	if err != nil {
		return err
	}
	for {
		p, old, err := o.readSecret(ctx)
		if err != nil {
			return err
		}
		if p.cert != nil && p.key != nil && p.ca != nil {
			o.log.Info("certificate found", "secret", o.cfg.CertSecret)
			return o.certs.set(p)
		}
		if p, err = newPair(serviceNames(service, o.cfg.Namespace), o.cfg.CertFault, time.Now()); err != nil {
			return err
		}
		err = o.writeSecret(ctx, old, p)
		switch {
		case err == nil:
			o.log.Info("certificate made", "secret", o.cfg.CertSecret)
			return o.certs.set(p)
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("store the certificate: %w", err)
		}
	}
}

// certificateFromSecret polls the Secret that another process fills.
func (o *operator) certificateFromSecret(ctx context.Context) error {
	var served string
	for {
		p, _, err := o.readSecret(ctx)
		if err != nil {
			o.log.Info("no certificate yet", "error", err)
		} else if p.cert != nil && p.key != nil && string(p.cert) != served {
			if err := o.certs.set(p); err != nil {
				return err
			}
			served = string(p.cert)
			o.log.Info("certificate read", "secret", o.cfg.CertSecret)
		}
		if served != "" && !o.cfg.CertReload {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// readSecret returns nil for the object when there is none.
func (o *operator) readSecret(ctx context.Context) (pair, *unstructured.Unstructured, error) {
	s, err := o.client.Resource(secretsResource).Namespace(o.cfg.Namespace).Get(ctx, o.cfg.CertSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return pair{}, nil, nil
	}
	if err != nil {
		return pair{}, nil, err
	}
	data, err := secretData(s)
	if err != nil {
		return pair{}, nil, err
	}
	return pair{ca: data["ca.crt"], cert: data["tls.crt"], key: data["tls.key"]}, s, nil
}

func (o *operator) writeSecret(ctx context.Context, old *unstructured.Unstructured, p pair) error {
	secrets := o.client.Resource(secretsResource).Namespace(o.cfg.Namespace)
	data := map[string][]byte{"ca.crt": p.ca, "tls.crt": p.cert, "tls.key": p.key}
	if old == nil {
		_, err := secrets.Create(ctx, newSecret(o.cfg.Namespace, o.cfg.CertSecret, "kubernetes.io/tls", data), metav1.CreateOptions{})
		return err
	}
	old = old.DeepCopy()
	old.Object["data"] = encoded(data)
	_, err := secrets.Update(ctx, old, metav1.UpdateOptions{})
	return err
}

func newSecret(namespace, name, kind string, data map[string][]byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata":   map[string]any{"name": name, "namespace": namespace},
		"type":       kind,
		"data":       encoded(data),
	}}
}

func encoded(data map[string][]byte) map[string]any {
	out := make(map[string]any, len(data))
	for k, v := range data {
		out[k] = base64.StdEncoding.EncodeToString(v)
	}
	return out
}

// secretData decodes a Secret's data and leaves empty values out.
func secretData(s *unstructured.Unstructured) (map[string][]byte, error) {
	text, _, err := unstructured.NestedStringMap(s.Object, "data")
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for k, v := range text {
		b, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			return nil, fmt.Errorf("secret %s/%s: %s: %w", s.GetNamespace(), s.GetName(), k, err)
		}
		if len(b) > 0 {
			data[k] = b
		}
	}
	return data, nil
}
