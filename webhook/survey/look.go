package survey

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/listwatch"
)

// atOnce is how many Services Look reads at the same time.
const atOnce = 16

// Look reads once how webhooks stand, and watches nothing. What cannot be read is
// unknown in the ladders, and told in unread, one text each. The statuses are in the order of
// the entries.
func Look(ctx context.Context, client dynamic.Interface, entries []webhook.Entry) (statuses []Status, unread []string) {
	s := New(client)
	var all sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, e := range entries {
		key := e.Service()
		if key == "" || s.services[key] != nil {
			continue
		}
		b := s.newService(key)
		s.services[key] = b
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			b.look(ctx)
		})
	}
	all.Wait()
	now := time.Now()
	for _, e := range entries {
		statuses = append(statuses, s.status(e, now))
	}
	return statuses, s.Unreadable()
}

// look reads the Service and what stands behind it once.
func (b *service) look(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { b.services.look(ctx) })
	both.Go(func() { b.endpointSlices.look(ctx) })
	both.Wait()
	s := b.theService()
	if s == nil || len(s.Spec.Selector) == 0 {
		return
	}
	b.pods = newFollower[corev1.Pod](b, podsGVR, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Spec.Selector).String()}, func() {})
	b.pods.look(ctx)
	b.secrets = b.mounted(ctx, namesOf(b.pods.values()))
	if len(b.pods.values()) == 0 {
		b.secrets.workloads = b.workloads(ctx)
	}
	b.secretsRead = true
}

// look lists the collection once.
func (f *follower[T]) look(ctx context.Context) {
	var items []item[T]
	for options := f.options; ; {
		list, err := f.api.List(ctx, options)
		switch {
		case listwatch.Refused(err):
			f.setStatus(func(s *collectionStatus) { s.unread, s.denied = "may not list "+f.what, true })
			return
		case err != nil:
			f.setStatus(func(s *collectionStatus) { s.unread = "cannot list " + f.what + ": " + strings.TrimSpace(err.Error()) })
			return
		}
		for i := range list.Items {
			u := &list.Items[i]
			if value, err := f.read(u); err == nil {
				items = append(items, item[T]{u.GetNamespace() + "/" + u.GetName(), u.GetResourceVersion(), value})
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			f.listed(items)
			return
		}
	}
}
