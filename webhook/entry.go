package webhook

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Entry is one webhook of a webhook configuration.
type Entry struct {
	// Mutating tells which of the two kinds of configurations it is in.
	Mutating bool
	// Configuration is the name of the configuration.
	Configuration string
	// Name is the webhook's own name.
	Name string
	// Release is the Helm release that the configuration belongs to, as
	// namespace/name; "" when it is none's.
	Release string

	Client            admissionv1.WebhookClientConfig
	Rules             []admissionv1.RuleWithOperations
	FailurePolicy     admissionv1.FailurePolicyType
	SideEffects       admissionv1.SideEffectClass
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	MatchConditions   []admissionv1.MatchCondition
}

// String names the entry for people.
func (e Entry) String() string { return fmt.Sprintf("webhook %q of %s", e.Name, e.Configuration) }

// Service is namespace/name of the Service that is called; "" for a URL.
func (e Entry) Service() string {
	if e.Client.Service == nil {
		return ""
	}
	return e.Client.Service.Namespace + "/" + e.Client.Service.Name
}

// Entries lists all webhooks of a cluster, in the order of their configurations' names.
func Entries(ctx context.Context, client kubernetes.Interface) ([]Entry, error) {
	api := client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing mutating webhook configurations: %w", err)
	}
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing validating webhook configurations: %w", err)
	}
	var entries []Entry
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			entries = append(entries, Entry{
				Mutating: true, Configuration: c.Name, Name: w.Name, Release: releaseOf(&c.ObjectMeta),
				Client: w.ClientConfig, Rules: w.Rules, FailurePolicy: deref(w.FailurePolicy), SideEffects: deref(w.SideEffects),
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchConditions: w.MatchConditions,
			})
		}
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			entries = append(entries, Entry{
				Configuration: c.Name, Name: w.Name, Release: releaseOf(&c.ObjectMeta),
				Client: w.ClientConfig, Rules: w.Rules, FailurePolicy: deref(w.FailurePolicy), SideEffects: deref(w.SideEffects),
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchConditions: w.MatchConditions,
			})
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Configuration, b.Configuration) })
	return entries, nil
}

// releaseOf reads the annotations that Helm puts on every object of a release
// (helm.sh/helm/v3 pkg/action/validate.go).
func releaseOf(m *metav1.ObjectMeta) string {
	if name := m.Annotations["meta.helm.sh/release-name"]; name != "" {
		return m.Annotations["meta.helm.sh/release-namespace"] + "/" + name
	}
	return ""
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Rung is a step of the ladder that a webhook climbs until it admits objects.
type Rung string

// The rungs, lowest first. None proves the ones above it.
const (
	// Configured: the webhook's entry exists.
	Configured Rung = "configured"
	// Trusted: its CA bundle parses and is in force. It does not prove that the
	// server's certificate was issued by it.
	Trusted Rung = "trusted"
	// Routed: its Service exists and has the port. It does not prove that
	// anything is behind it.
	Routed Rung = "routed"
	// Backed: the Service has a ready endpoint. It does not prove that the API
	// server's node routes to it already, nor that the endpoint listens.
	Backed Rung = "backed"
	// Admitting: a request through the API server got the webhook's answer. It
	// does not prove that another API server or replica would give one too.
	Admitting Rung = "admitting"
)

// Reading says up to where a webhook stands.
type Reading struct {
	// Rung is the highest one that was reached, or the one that failed.
	Rung Rung
	// Ready says that Rung was reached; else Reason says why it was not.
	Ready  bool
	Reason string
}

// Look climbs the ladder from Trusted to Backed by reading objects.
func Look(ctx context.Context, client kubernetes.Interface, e Entry) (Reading, error) {
	ref := e.Client.Service
	// A URL may be certified by an authority that the API server's system trusts.
	if reason := distrust(e.Client.CABundle, time.Now()); reason != "" && (ref != nil || len(e.Client.CABundle) > 0) {
		return Reading{Rung: Trusted, Reason: reason}, nil
	}
	if ref == nil {
		return Reading{Rung: Trusted, Ready: true}, nil
	}
	svc, err := client.CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Reading{Rung: Routed, Reason: fmt.Sprintf("Service %s does not exist", e.Service())}, nil
	}
	if err != nil {
		return Reading{}, fmt.Errorf("reading Service %s: %w", e.Service(), err)
	}
	port := int32(443) // the API's default
	if ref.Port != nil {
		port = *ref.Port
	}
	routed := false
	for _, p := range svc.Spec.Ports {
		routed = routed || p.Port == port
	}
	if !routed {
		return Reading{Rung: Routed, Reason: fmt.Sprintf("Service %s has no port %d", e.Service(), port)}, nil
	}
	list, err := client.DiscoveryV1().EndpointSlices(ref.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + ref.Name,
	})
	if err != nil {
		return Reading{}, fmt.Errorf("listing EndpointSlices of Service %s: %w", e.Service(), err)
	}
	ready, all := 0, 0
	for _, s := range list.Items {
		ready += readyAddresses(&s)
		for _, ep := range s.Endpoints {
			all += len(ep.Addresses)
		}
	}
	if ready == 0 {
		return Reading{Rung: Backed, Reason: fmt.Sprintf("endpoints of Service %s ready 0/%d", e.Service(), all)}, nil
	}
	return Reading{Rung: Backed, Ready: true}, nil
}

// distrust says what is wrong with a CA bundle; "" when nothing is.
func distrust(bundle []byte, now time.Time) string {
	if len(bundle) == 0 {
		return "the CA bundle is empty: its injector has not run yet"
	}
	found := false
	expired := time.Time{}
	for rest := bundle; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if now.Before(cert.NotAfter) {
			found = true
		} else {
			expired = cert.NotAfter
		}
	}
	switch {
	case found:
		return ""
	case !expired.IsZero():
		return "the CA bundle expired at " + expired.UTC().Format(time.RFC3339)
	default:
		return "the CA bundle holds no certificate"
	}
}
