// Package survey watches how the webhooks of a cluster stand: their
// configurations, and what stands behind the Services that they are called at.
// Where watching is forbidden it lists from time to time, and says so; where
// reading is forbidden the rung is unknown.
//
// It does not call webhooks: what calls showed it is told with RecordCall. It reads
// the certificates of Secrets that a webhook's pods mount, if it may, and keeps
// nothing else of them.
package survey

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook"
)

var (
	validatingGVR = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutatingGVR   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	crdsGVR       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// Survey is the view of one cluster. It watches only while somebody follows.
type Survey struct {
	client dynamic.Interface

	// running counts the goroutines; Close waits for them.
	running sync.WaitGroup

	mu            sync.Mutex
	closed        bool
	subscriptions []*Subscription
	// configurations are followed while anybody wants them, by resource.
	configurations map[schema.GroupVersionResource]*configurations
	// backings are followed while a followed webhook is called at their Service.
	services map[string]*service
	calls    map[string]recordedCall
	// since holds the last reading of each rung.
	since map[rung]webhook.Reading
}

// configurations are the webhooks that the objects of one resource configure.
type configurations struct {
	*follower[[]webhook.Entry]
	stop context.CancelFunc
}

// recordedCall is what calls to a webhook showed.
type recordedCall struct {
	of   func(webhook.Entry) bool // selects the webhook
	call webhook.Call
}

// New makes a survey. client must not hold requests itself, and wants no rate
// limit. Close it when nobody follows any more.
func New(client dynamic.Interface) *Survey {
	return &Survey{
		client: client, configurations: map[schema.GroupVersionResource]*configurations{},
		services: map[string]*service{}, calls: map[string]recordedCall{}, since: map[rung]webhook.Reading{},
	}
}

// Close ends all watches and waits for them, and for those who are being told
// of a change. Nobody is told any more then.
func (s *Survey) Close() {
	s.mu.Lock()
	s.closed, s.subscriptions = true, nil
	s.reconcile()
	s.mu.Unlock()
	s.running.Wait()
}

// Target says which webhooks to follow.
type Target struct {
	// Match selects webhooks by what configures them; nil selects none.
	Match func(webhook.Entry) bool
	// Fault selects those that a fault can be of, and their Service even when
	// no configuration can be read.
	Fault *webhook.Fault
	// Conversions says that the conversion webhooks of CRDs are wanted as well.
	Conversions bool
}

// Subscription is somebody's interest in some webhooks.
type Subscription struct {
	survey  *Survey
	target  Target
	changed func()
}

// Subscribe begins to watch what t selects. changed is called once at the start
// and after every change that may concern it, from goroutines of the survey: it
// must return soon, and may call methods of the subscription. Close the subscription
// when it is not needed any more. Of a survey that was closed nothing is told.
func (s *Survey) Subscribe(t Target, changed func()) *Subscription {
	f := &Subscription{s, t, changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return f
	}
	s.subscriptions = append(s.subscriptions, f)
	s.reconcile()
	s.running.Go(changed) // what others follow already does not change for this one
	return f
}

// Close ends the interest. A change that is being told may still arrive.
func (f *Subscription) Close() {
	s := f.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.subscriptions, f); i >= 0 {
		s.subscriptions = slices.Delete(s.subscriptions, i, i+1)
		s.reconcile()
	}
}

// wants reports whether the target selects an entry.
func (t Target) wants(e webhook.Entry) bool {
	if e.Kind == webhook.Conversion && !t.conversions() {
		return false
	}
	return (t.Match != nil && t.Match(e)) || (t.Fault != nil && e.Matches(*t.Fault))
}

func (t Target) conversions() bool {
	return t.Conversions || (t.Fault != nil && t.Fault.Kind == webhook.Conversion)
}

// resources are those that configure what the target selects.
func (t Target) resources() []schema.GroupVersionResource {
	if t.conversions() {
		return []schema.GroupVersionResource{mutatingGVR, validatingGVR, crdsGVR}
	}
	return []schema.GroupVersionResource{mutatingGVR, validatingGVR}
}

// notify tells every subscriber.
func (s *Survey) notify() {
	s.mu.Lock()
	followings := slices.Clone(s.subscriptions)
	s.mu.Unlock()
	for _, f := range followings {
		f.changed()
	}
}

// configured takes a change of configurations into account.
func (s *Survey) configured() {
	s.mu.Lock()
	s.reconcile()
	s.mu.Unlock()
	s.notify()
}

// reconcile follows what is of interest, and that only. The mutex is held.
func (s *Survey) reconcile() {
	resources, services := map[schema.GroupVersionResource]bool{}, map[string]bool{}
	for _, f := range s.subscriptions {
		for _, gvr := range f.target.resources() {
			resources[gvr] = true
		}
		maps.Copy(services, s.wantedServices(f.target))
	}
	for gvr := range resources {
		if s.configurations[gvr] == nil {
			s.configurations[gvr] = s.configure(gvr)
		}
	}
	for gvr, c := range s.configurations {
		if !resources[gvr] {
			c.stop()
			delete(s.configurations, gvr)
		}
	}
	for key := range services {
		if s.services[key] == nil {
			s.services[key] = s.followService(key)
		}
	}
	for key, b := range s.services {
		if !services[key] {
			b.stop()
			delete(s.services, key)
		}
	}
}

// wantedServices are those at which the webhooks are called that t selects.
func (s *Survey) wantedServices(t Target) map[string]bool {
	services := map[string]bool{}
	for _, e := range s.entries() {
		if e.Client.Service != nil && t.wants(e) {
			services[e.Service()] = true
		}
	}
	if t.Fault != nil && t.Fault.Service != "" {
		services[t.Fault.ServiceKey()] = true
	}
	return services
}

// configure begins to follow what configures webhooks. Of a CRD no more is kept
// than its webhook: the schemas of a cluster's CRDs can take some 100 MB.
func (s *Survey) configure(gvr schema.GroupVersionResource) *configurations {
	ctx, stop := cancellable(context.Background())
	f := &follower[[]webhook.Entry]{
		api: s.client.Resource(gvr), what: gvr.Resource, read: webhook.EntriesOf, changed: s.configured,
	}
	if gvr == crdsGVR {
		f.relist = relistCRDs
	}
	s.running.Go(func() { f.run(ctx) })
	return &configurations{f, stop}
}

func cancellable(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, func() { cancel(context.Canceled) }
}

// entries are all webhooks that are known, in the order of their
// configurations' names. The mutex is held.
func (s *Survey) entries() []webhook.Entry {
	var entries []webhook.Entry
	for _, gvr := range []schema.GroupVersionResource{mutatingGVR, validatingGVR, crdsGVR} {
		if c := s.configurations[gvr]; c != nil {
			entries = append(entries, slices.Concat(c.values()...)...)
		}
	}
	slices.SortStableFunc(entries, func(a, b webhook.Entry) int { return strings.Compare(a.Configuration, b.Configuration) })
	return entries
}

// RecordCall tells the survey what a call through the API server showed of the
// webhook that a fault is about: it answered, or f is why it did not.
func (s *Survey) RecordCall(f webhook.Fault, answered bool) {
	if f.Kind == webhook.Server || f.Kind == "" {
		return
	}
	key := string(f.Kind) + " " + f.Webhook + " " + f.ServiceKey()
	fault := f
	if answered {
		fault = webhook.Fault{}
	}
	s.record(key, func(e webhook.Entry) bool { return e.Matches(f) }, fault)
}

// RecordAnswer tells the survey that a call showed that the webhook answers.
func (s *Survey) RecordAnswer(e webhook.Entry) {
	s.record(strings.Join([]string{string(e.Kind), e.Configuration, e.Name}, "/"), e.Is, webhook.Fault{})
}

// record notes what a call to a webhook showed; a fault without Kind is an answer.
func (s *Survey) record(key string, of func(webhook.Entry) bool, fault webhook.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[key].call
	if c.At = time.Now(); c.Since.IsZero() || (c.Fault.Kind == "") != (fault.Kind == "") {
		c.Since = c.At
	}
	c.Fault = fault
	c.Answers++
	if fault.Kind != "" {
		c.Answers = 0
	}
	s.calls[key] = recordedCall{of, c}
}

// Entries are all webhooks that are configured, as far as they were read while
// somebody follows; conversion webhooks only if somebody wants any.
func (s *Survey) Entries() []webhook.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries()
}
