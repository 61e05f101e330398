// Package survey watches how the webhooks of a cluster stand: their
// configurations, and what stands behind the Services that they are called at.
// Where watching is forbidden it lists from time to time, and says so; where
// reading is forbidden the rung is unknown.
//
// It does not call webhooks: what calls showed it is told with Called. It reads
// the certificates of Secrets that a webhook's pods mount, if it may, and keeps
// nothing else of them.
package survey

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook"
)

var (
	validating  = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutating    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// Survey is the view of one cluster. It watches only while somebody follows.
type Survey struct {
	client dynamic.Interface

	// running counts the goroutines; Close waits for them.
	running sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	followings []*Following
	// configurations are followed while anybody follows anything, by resource.
	configurations map[schema.GroupVersionResource]*process
	// backings are followed while a followed webhook is called at their Service.
	backings map[string]*backing
	calls    map[string]called
	since    map[string]webhook.Reading
}

// process is a follower and the way to end it.
type process struct {
	*follower
	stop context.CancelFunc
}

// called is what calls to a webhook showed.
type called struct {
	of   func(webhook.Entry) bool // tells the webhook
	call webhook.Call
}

// New makes a survey. client must not hold requests itself, and wants no rate
// limit. Close it when nobody follows any more.
func New(client dynamic.Interface) *Survey {
	return &Survey{
		client: client, configurations: map[schema.GroupVersionResource]*process{},
		backings: map[string]*backing{}, calls: map[string]called{}, since: map[string]webhook.Reading{},
	}
}

// Close ends all watches and waits for them. Who follows is told no more.
func (s *Survey) Close() {
	s.mu.Lock()
	s.closed, s.followings = true, nil
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

// Standing is how one webhook stands.
type Standing struct {
	webhook.Entry
	Ladder webhook.Ladder
	// Backing is what the ladder was read from; nil for a URL.
	Backing *webhook.Backing
}

// Following is somebody's interest in some webhooks.
type Following struct {
	survey  *Survey
	target  Target
	changed func()
}

// Follow begins to watch what t selects. changed is called after every change
// that may concern it, from a goroutine of the survey: it must return at once
// and may call Standings. Close the following when it is not needed any more.
func (s *Survey) Follow(t Target, changed func()) *Following {
	f := &Following{s, t, changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return f
	}
	s.followings = append(s.followings, f)
	s.reconcile()
	return f
}

// Close ends the interest.
func (f *Following) Close() {
	s := f.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.followings, f); i >= 0 {
		s.followings = slices.Delete(s.followings, i, i+1)
		s.reconcile()
	}
}

// wants tells whether the target selects an entry.
func (t Target) wants(e webhook.Entry) bool {
	if e.Kind == webhook.Conversion && !t.conversions() {
		return false
	}
	return (t.Match != nil && t.Match(e)) || (t.Fault != nil && e.Met(*t.Fault))
}

func (t Target) conversions() bool {
	return t.Conversions || (t.Fault != nil && t.Fault.Kind == webhook.Conversion)
}

// notify tells everybody who follows.
func (s *Survey) notify() {
	s.mu.Lock()
	followings := slices.Clone(s.followings)
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
	wanted := map[schema.GroupVersionResource]bool{}
	services := map[string]bool{}
	for _, f := range s.followings {
		wanted[validating], wanted[mutating] = true, true
		if f.target.conversions() {
			wanted[definitions] = true
		}
		for _, e := range s.entries() {
			if e.Client.Service != nil && f.target.wants(e) {
				services[e.Service()] = true
			}
		}
		if t := f.target.Fault; t != nil && t.Service != "" {
			services[t.ServiceKey()] = true
		}
	}
	for _, gvr := range []schema.GroupVersionResource{validating, mutating, definitions} {
		p := s.configurations[gvr]
		switch {
		case wanted[gvr] && p == nil:
			f := &follower{api: s.client.Resource(gvr), resource: gvr.Resource, changed: s.configured}
			if gvr == definitions {
				f.keep = withoutSchemas
			}
			s.configurations[gvr] = s.start(f)
		case !wanted[gvr] && p != nil:
			p.stop()
			delete(s.configurations, gvr)
		}
	}
	for key := range services {
		if s.backings[key] == nil {
			s.backings[key] = s.back(key)
		}
	}
	for key, b := range s.backings {
		if !services[key] {
			b.stop()
			delete(s.backings, key)
		}
	}
}

// start runs a follower until it is stopped.
func (s *Survey) start(f *follower) *process {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.running.Go(func() { f.run(ctx) })
	return &process{f, func() { cancel(context.Canceled) }}
}

// withoutSchemas cuts a CRD down to what its conversion webhook needs: the
// schemas of a cluster's CRDs can take some 100 MB.
func withoutSchemas(u *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(u.Object, "spec", "versions")
	unstructured.RemoveNestedField(u.Object, "status")
	return u
}

// entries are all webhooks that are known, in the order of their
// configurations' names. The mutex is held.
func (s *Survey) entries() []webhook.Entry {
	var entries []webhook.Entry
	for _, gvr := range []schema.GroupVersionResource{mutating, validating, definitions} {
		p := s.configurations[gvr]
		if p == nil {
			continue
		}
		for _, u := range p.seen().objects {
			es, err := webhook.EntriesOf(u)
			if err == nil { // an API server serves no broken configuration
				entries = append(entries, es...)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b webhook.Entry) int { return strings.Compare(a.Configuration, b.Configuration) })
	return entries
}

// Called tells the survey what a call through the API server showed of the
// webhook that a fault is about: it answered, or f is why it did not.
func (s *Survey) Called(f webhook.Fault, answered bool) {
	if f.Kind == webhook.Server || f.Kind == "" {
		return
	}
	key := string(f.Kind) + " " + f.Webhook + " " + f.ServiceKey()
	fault := f
	if answered {
		fault = webhook.Fault{}
	}
	s.note(key, func(e webhook.Entry) bool { return e.Met(f) }, fault)
}

// Answered tells the survey that a call showed that the webhook answers.
func (s *Survey) Answered(e webhook.Entry) {
	s.note(strings.Join([]string{string(e.Kind), e.Configuration, e.Name}, "/"), e.Is, webhook.Fault{})
}

// note takes down what a call to a webhook showed; a fault without Kind is none.
func (s *Survey) note(key string, of func(webhook.Entry) bool, fault webhook.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[key].call
	c.At, c.Fault = time.Now(), fault
	c.Answers++
	if fault.Kind != "" {
		c.Answers = 0
	}
	s.calls[key] = called{of, c}
}

// Entries are all webhooks that are configured, as far as they were read while
// somebody follows; conversion webhooks only if somebody wants any.
func (s *Survey) Entries() []webhook.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries()
}

// Unread says which kinds of configurations cannot be read, or are polled, one
// text each. It is empty when all is watched.
func (s *Survey) Unread() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, gvr := range []schema.GroupVersionResource{mutating, validating, definitions} {
		if p := s.configurations[gvr]; p != nil {
			if text := p.seen().text(gvr.Resource); text != "" {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// text says what is not as it should be.
func (s seen) text(resource string) string {
	switch {
	case s.unread != "":
		return s.unread
	case s.polled:
		return "may not watch " + resource + ": listing them every " + poll.String()
	}
	return ""
}

// Synced tells whether all that the following needs was read, or cannot be.
func (f *Following) Synced() bool {
	s := f.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.configurations {
		if x := p.seen(); !x.synced && x.unread == "" {
			return false
		}
	}
	for _, e := range s.entries() {
		if b := s.backings[e.Service()]; b != nil && f.target.wants(e) && !b.synced() {
			return false
		}
	}
	return true
}
