package match

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kplan-dev/kplan/webhook"
)

// Outcome is what the API server does about one webhook.
type Outcome string

// The outcomes.
const (
	// Calls: the webhook is called.
	Calls Outcome = "calls"
	// Skips: the webhook is not called.
	Skips Outcome = "skips"
	// Rejects: the API server answers with an error instead of calling it.
	Rejects Outcome = "rejects"
	// Maybe: it depends on what is not known here.
	Maybe Outcome = "maybe"
)

// Verdict is a prediction about one webhook and one request.
type Verdict struct {
	Outcome Outcome
	// Reason says why, for people.
	Reason string
	// Resource is what the webhook is told that the object is: the resource of
	// the request, or an equivalent of it that its rules name. It is empty when
	// something else decides before the rules, or no rule or version is found.
	Resource schema.GroupVersionResource
	// Again says that it may be called twice: reinvocationPolicy is IfNeeded, so
	// one more call follows if something changes the object after it.
	Again bool
}

// Request is what a client asks of the API server.
type Request struct {
	// Operation is CREATE, UPDATE, DELETE or CONNECT. A patch and an apply are
	// UPDATE, or CREATE where the object does not exist yet.
	Operation admissionv1.OperationType
	Resource  schema.GroupVersionResource
	Kind      schema.GroupVersionKind
	// Subresource is such as "status"; Kind is then that of its object.
	Subresource string
	// Namespace is empty for what is cluster-scoped.
	Namespace string
	// Name is the object's name; that of Object if empty.
	Name string
	// Object is the new object, of Kind. DELETE has none; otherwise nil means
	// that it is not known.
	Object *unstructured.Unstructured
	// OldObject is the object before UPDATE and DELETE; nil means not known.
	OldObject *unstructured.Unstructured
	// Planned says that Object is not as the API server would see it: fields
	// with defaults may be missing. A match condition that fails on it proves
	// nothing then.
	Planned bool
	DryRun  bool
	// User sends the request; nil when not known.
	User *authenticationv1.UserInfo
}

// Cluster is what is known of the cluster. The zero value knows nothing.
type Cluster struct {
	// Labels gives those of a live or planned namespace, false if not known.
	// The label that every namespace has of its name may be missing.
	Labels func(namespace string) (map[string]string, bool)
	// Resources knows equivalent resources.
	Resources *Resources
	// Authorizer answers what match conditions ask about the user's rights;
	// nil when nobody can.
	Authorizer authorizer.UnconditionalAuthorizer
}

// Matcher predicts. Its zero value works; it is safe for concurrent use and must not
// be copied.
type Matcher struct {
	Cluster Cluster

	compiled sync.Map // conditions, quoted -> matchconditions.Matcher
	read     sync.Map // expression -> map[string]bool, what it uses
}

// Hit is a webhook that a request meets.
type Hit struct {
	Entry   webhook.Entry
	Verdict Verdict
}

// Match predicts what the API server does about a webhook. The context bounds
// the evaluation of match conditions, which is short anyway.
func (m *Matcher) Match(ctx context.Context, e webhook.Entry, r Request) Verdict {
	return m.match(ctx, e, prepare(r))
}

// Filter leaves out the webhooks that are certainly skipped. The rest is in
// the order of calls: mutating webhooks one by one, by name of their
// configuration and in its order; then validating ones, all at once. Entries
// must come in the order of their configurations, as webhook.EntriesOf has them.
func (m *Matcher) Filter(ctx context.Context, entries []webhook.Entry, r Request) []Hit {
	q := prepare(r)
	var hits []Hit
	for _, e := range entries {
		if v := m.match(ctx, e, q); v.Outcome != Skips {
			hits = append(hits, Hit{Entry: e, Verdict: v})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(callOrder(a.Entry), callOrder(b.Entry)), strings.Compare(a.Entry.Configuration, b.Entry.Configuration))
	})
	return hits
}

func callOrder(e webhook.Entry) int {
	if e.Kind == webhook.Mutating {
		return 0
	}
	return 1
}

// match goes through the checks in the API server's order. What is not known
// is put off, for a later check may leave the webhook out for certain.
func (m *Matcher) match(ctx context.Context, e webhook.Entry, q *request) Verdict {
	if e.Kind == webhook.Conversion {
		return skips("it converts objects and admits none")
	}
	if q.exempt() {
		return skips(fmt.Sprintf("the API server sends no %s to webhooks", q.Kind.Kind))
	}
	var doubts doubts
	if reason := m.namespace(e, q, &doubts); reason != "" {
		return skips(reason)
	}
	if reason := object(e, q, &doubts); reason != "" {
		return skips(reason)
	}
	resource, reason := m.rule(e, q, &doubts)
	if reason != "" {
		return skips(reason)
	}
	v := m.conditions(ctx, e, q, resource, &doubts)
	if v.Outcome != Skips && len(doubts) > 0 {
		v.Outcome, v.Reason = Maybe, doubts[0]
	}
	if v.Outcome == Calls && q.DryRun && !dryRuns(e.SideEffects) {
		v.Outcome, v.Reason = Rejects, fmt.Sprintf("its sideEffects are %s, so the API server refuses dry runs", e.SideEffects)
	}
	v.Again = v.Outcome != Skips && e.Kind == webhook.Mutating && e.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
	return v
}

// dryRuns reports whether a webhook is called in dry runs
// (pkg/admission/plugin/webhook/validating/dispatcher.go, callHook).
func dryRuns(c admissionv1.SideEffectClass) bool {
	return c == admissionv1.SideEffectClassNone || c == admissionv1.SideEffectClassNoneOnDryRun
}

func skips(reason string) Verdict { return Verdict{Outcome: Skips, Reason: reason} }

// doubts are reasons why a webhook that nothing leaves out may yet be skipped.
type doubts []string

func (d *doubts) addf(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }
