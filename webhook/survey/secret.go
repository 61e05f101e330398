package survey

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/listwatch"
)

// secretState is what was read of the Secrets that pods mount, or of what is to make pods
// where there are none.
type secretState struct {
	workloads    []webhook.Workload
	certificates []webhook.Certificate
	// absent are the names of those that do not exist.
	missing []string
	// unread says why they cannot be read.
	unread string
}

func (m secretState) equal(o secretState) bool {
	return m.unread == o.unread && slices.Equal(m.missing, o.missing) && slices.Equal(m.workloads, o.workloads) &&
		slices.EqualFunc(m.certificates, o.certificates, func(a, b webhook.Certificate) bool {
			return a.Source == b.Source && a.Chain[0].Equal(b.Chain[0])
		})
}

// mountedSecrets are the Secrets of a backing as a collection.
type mountedSecrets struct{ *service }

func (s mountedSecrets) name() string { return "secrets in namespace " + s.namespace }

func (s mountedSecrets) status() collectionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return collectionStatus{synced: s.secretsRead, unread: s.secrets.unread}
}

// readSecrets reads the certificates of mounted Secrets, or what is to make pods,
// when the pods change and from time to time, until ctx ends.
func (b *service) readSecrets(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.readMounts:
		case <-time.After(renew):
		}
		pods := b.thePods()
		if pods == nil || !pods.status().settled() {
			continue
		}
		m := b.mounted(ctx, namesOf(pods.values()))
		if len(pods.values()) == 0 {
			m.workloads = b.workloads(ctx)
		}
		if ctx.Err() == nil && b.setSecrets(pods, m) {
			b.survey.notify()
		}
	}
}

// setSecrets notes what was read of the Secrets of these pods, and reports whether it
// differs from before.
func (b *service) setSecrets(pods *follower[*corev1.Pod], m secretState) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pods != pods { // the Service selects others by now
		return false
	}
	news := !b.secretsRead || !m.equal(b.secrets)
	b.secrets, b.secretsRead = m, true
	return news
}

// mounted takes the certificates out of Secrets, and leaves their keys.
func (b *service) mounted(ctx context.Context, names []string) secretState {
	m := secretState{}
	for _, name := range names {
		u, err := b.survey.client.Resource(secretsGVR).Namespace(b.namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case listwatch.Refused(err):
			m.unread = "may not get secrets in namespace " + b.namespace
			continue
		case apierrors.IsNotFound(err):
			m.missing = append(m.missing, name)
			continue
		case err != nil:
			m.unread = "cannot get secrets in namespace " + b.namespace + ": " + err.Error()
			continue
		}
		s, err := typed[corev1.Secret](u)
		if err != nil {
			continue
		}
		if chain := webhook.ParseCertificates(s.Data[corev1.TLSCertKey]); len(chain) > 0 {
			m.certificates = append(m.certificates, webhook.Certificate{
				Source: webhook.Object{Kind: "Secret", Namespace: b.namespace, Name: name}, Chain: chain,
			})
		}
	}
	return m
}

// namesOf lists the Secrets that pods mount.
func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, p := range pods {
		for _, v := range p.Spec.Volumes {
			if v.Secret != nil {
				names = append(names, v.Secret.SecretName)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
