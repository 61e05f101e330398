package webhook

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rung is a step of the ladder that a webhook climbs until it admits objects.
type Rung string

// The rungs, lowest first. None proves the ones above it.
const (
	// Configured: the webhook's entry exists. It does not prove that the API
	// server's admission knows it already; that takes some milliseconds.
	Configured Rung = "configured"
	// Trusted: its CA bundle parses and is in force. It does not prove that the
	// server's certificate was issued by it.
	Trusted Rung = "trusted"
	// Routed: its Service exists and has the port. It does not prove that
	// anything is behind it.
	Routed Rung = "routed"
	// Backed: the Service has a ready endpoint. It does not prove that the API
	// server's node routes to it already, nor that the endpoint listens: a
	// readiness probe asks what its author chose.
	Backed Rung = "backed"
	// Serving: the last call reached the webhook. Before any call it is Unknown
	// at best: the certificate that the pods mount can speak against it, and not
	// for it, since the process may have loaded another one.
	Serving Rung = "serving"
	// Admitting: a request through the API server got the webhook's answer. It
	// does not prove that another API server or replica would give one too, nor
	// that the next request gets one.
	Admitting Rung = "admitting"
)

// Rungs are all rungs, lowest first.
var Rungs = []Rung{Configured, Trusted, Routed, Backed, Serving, Admitting}

// State says whether a rung was reached.
type State string

// The states of a rung.
const (
	// Waiting: not yet, and things are as they are while a webhook starts.
	Waiting State = "waiting"
	// Ready: reached.
	Ready State = "ready"
	// Failed: not reached, and somebody has to change something.
	Failed State = "failed"
	// Unknown: it could not be read, or nothing has shown it yet.
	Unknown State = "unknown"
)

// Reading says how one rung stands. What one does not prove is said at its rung.
type Reading struct {
	Rung  Rung  `json:"rung"`
	State State `json:"state"`
	// Reason is for people; it may be empty when State is Ready.
	Reason string `json:"reason,omitempty"`
	// Since is when the rung came to stand so, as its objects tell; zero when
	// they do not.
	Since time.Time `json:"since,omitzero"`
	// Source is the object that the reading comes from.
	Source Object `json:"source,omitzero"`
}

// String returns rung: reason.
func (r Reading) String() string {
	if r.Reason == "" {
		return string(r.Rung) + ": " + string(r.State)
	}
	return string(r.Rung) + ": " + r.Reason
}

// Ladder is how a webhook stands, a reading per rung, lowest first. A webhook
// that is called by a URL has no Routed and Backed rungs.
type Ladder []Reading

// Missing returns the lowest rung that was not reached; rungs that could not be read
// are passed over. It is false when there is none.
func (l Ladder) Missing() (Reading, bool) {
	return l.first(func(r Reading) bool { return r.State == Waiting || r.State == Failed })
}

// Unknown returns the lowest rung of which nothing is known. It is false when there
// is none.
func (l Ladder) Unknown() (Reading, bool) {
	return l.first(func(r Reading) bool { return r.State == Unknown })
}

// Callable reports whether nothing that can be read stands in the way of a call:
// the rungs up to Backed were reached, or could not be read.
func (l Ladder) Callable() bool {
	r, missing := l.Missing()
	return !missing || r.Rung == Serving || r.Rung == Admitting
}

// At returns the reading of a rung; false when the ladder does not have it.
func (l Ladder) At(rung Rung) (Reading, bool) {
	return l.first(func(r Reading) bool { return r.Rung == rung })
}

func (l Ladder) first(is func(Reading) bool) (Reading, bool) {
	if i := slices.IndexFunc(l, is); i >= 0 {
		return l[i], true
	}
	return Reading{}, false
}

// Call is what is known of the calls to a webhook. The zero Call: none was made.
type Call struct {
	// At is when the last one ended, and Since when the first one of those in a
	// row that ended as it did.
	At, Since time.Time
	// Fault is why the webhook gave no answer; a zero Kind says that it gave one.
	Fault Fault
	// Answers counts the answers in a row up to the last call.
	Answers int
}

// answered reports whether the last call got the webhook's answer; a denial is one.
func (c Call) answered() bool {
	return !c.At.IsZero() && (c.Fault.Kind == "" || c.Fault.Class == Denied)
}

// ReadLadder reads a webhook's ladder from objects. A nil entry is one that is not
// configured. b is what stands behind its Service, not needed for one with a
// URL. It is pure: now is the time to judge certificates at.
func ReadLadder(e *Entry, b *Backing, last Call, now time.Time) Ladder {
	if e == nil {
		return Ladder{{Rung: Configured, State: Waiting, Reason: "it is not configured"}}
	}
	l := Ladder{{Rung: Configured, State: Ready, Since: e.Created, Source: e.Source()}, trusted(e, now)}
	if e.Client.Service != nil {
		if b == nil {
			b = &Backing{}
		}
		l = append(l, b.routed(e), b.backed(e))
	}
	return append(l, serving(e, b, last, now), admitting(last))
}

// trusted judges the CA bundle.
func trusted(e *Entry, now time.Time) Reading {
	r := Reading{Rung: Trusted, State: Ready, Source: e.Source()}
	if e.Client.Service == nil && len(e.Client.CABundle) == 0 {
		r.Reason = "by the API server's system roots"
		return r
	}
	r.State, r.Reason, r.Since = checkBundle(e.Client.CABundle, now)
	return r
}

// routed judges the Service. Which ones can be called depends on how the API
// server resolves them (k8s.io/apiserver pkg/util/proxy/proxy.go): by ClusterIP
// it cannot call a headless one, by endpoints not an ExternalName.
func (b *Backing) routed(e *Entry) Reading {
	r := Reading{Rung: Routed, State: Ready, Source: serviceOf(e)}
	if why := b.unread(Services); why != "" {
		r.State, r.Reason = Unknown, why
		return r
	}
	if b.Service == nil {
		r.State, r.Reason = Waiting, fmt.Sprintf("Service %s does not exist", e.Service())
		return r
	}
	r.Since = b.Service.CreationTimestamp.Time
	switch {
	case b.port(e.Port()) == nil:
		r.State, r.Reason = Failed, fmt.Sprintf("Service %s has no port %d, only %s", e.Service(), e.Port(), b.ports())
	case b.Service.Spec.Type == corev1.ServiceTypeExternalName:
		r.State, r.Reason = Unknown, fmt.Sprintf("Service %s is an ExternalName, which not every API server can call", e.Service())
	case b.Service.Spec.ClusterIP == corev1.ClusterIPNone:
		r.State, r.Reason = Unknown, fmt.Sprintf("Service %s is headless, which not every API server can call", e.Service())
	}
	return r
}

// backed judges the endpoints, and explains them by the pods behind.
func (b *Backing) backed(e *Entry) Reading {
	r := Reading{Rung: Backed, Source: serviceOf(e)}
	if why := b.unread(EndpointSlices); why != "" {
		r.State, r.Reason = Unknown, why
		return r
	}
	if b.Service != nil && b.Service.Spec.Type == corev1.ServiceTypeExternalName {
		r.State, r.Reason = Unknown, "an ExternalName has no endpoints"
		return r
	}
	n := b.endpoints(e.Port())
	r.State, r.Reason = Waiting, n.String()
	switch {
	case n.ready > 0:
		r.State, r.Since = Ready, b.readySince()
		return r
	case n.serving > 0: // kube-proxy calls it still (KEP-1669), an API server that looks up endpoints does not
		r.State = Unknown
		return r
	case n.elsewhere > 0 && n.all == 0:
		r.Reason = fmt.Sprintf("no endpoint has port %d of the Service, whose target is %q", e.Port(), target(b.port(e.Port())))
		return r
	}
	why, from, since := b.unreadyReason()
	if why != "" {
		r.Reason += "; " + why
	}
	if from != (Object{}) {
		r.Source, r.Since = from, since
	}
	return r
}

// target is the port of a container that a Service's port leads to.
func target(p *corev1.ServicePort) string {
	if p.TargetPort == (intstr.IntOrString{}) {
		return strconv.Itoa(int(p.Port)) // the API's default
	}
	return p.TargetPort.String()
}

// serviceOf names the Service that e is called at.
func serviceOf(e *Entry) Object {
	ref := e.Client.Service
	return Object{Kind: "Service", Namespace: ref.Namespace, Name: ref.Name}
}

// serving judges the last call, and before one the certificates. A certificate
// that does not fit explains a call that got no answer.
func serving(e *Entry, b *Backing, last Call, now time.Time) Reading {
	r := Reading{Rung: Serving, State: Unknown, Reason: "it was not called yet", Source: e.Source(), Since: last.Since}
	if last.answered() {
		r.State, r.Reason = Ready, ""
		return r
	}
	if b != nil && e.Client.Service != nil {
		c := b.certificate(e, now)
		if c.State != Unknown || (last.At.IsZero() && c.Reason != "") {
			return c
		}
	}
	if last.At.IsZero() {
		if why := b.unread(Secrets); why != "" && e.Client.Service != nil {
			r.Reason += "; " + why
		}
		return r
	}
	r.State, r.Reason = Waiting, last.Fault.Cause
	if last.Fault.Class == Misconfigured {
		r.State = Failed
	}
	return r
}

// admitting judges the last call.
func admitting(last Call) Reading {
	r := Reading{Rung: Admitting, State: Unknown, Since: last.Since}
	switch {
	case last.answered():
		r.State = Ready
		if last.Answers > 1 {
			r.Reason = fmt.Sprintf("%d answers in a row", last.Answers)
		}
	case last.At.IsZero():
		r.Reason = "nothing has shown it yet"
	default:
		r.State, r.Reason = Waiting, "the last call got no answer"
	}
	return r
}

// Reclassify decides the class of a fault that is [Fault.Ambiguous] by how its
// webhook stands:
//   - what looks like a race is a misconfiguration when a rung is Failed, which
//     nothing but a change of objects can mend: a CA bundle or certificate that
//     has expired, a bundle that holds no certificate, a port that is not there;
//   - an HTTP status that says "not here", while pods behind the webhook come
//     and go, is the answer of an older or newer version: a race.
//
// Any other fault keeps its class.
func Reclassify(f Fault, e *Entry, b *Backing, now time.Time) Class {
	if e == nil || !f.Ambiguous() {
		return f.Class
	}
	failed := func(r Reading) bool { return r.State == Failed }
	switch {
	case f.Class == Race && slices.ContainsFunc(ReadLadder(e, b, Call{}, now), failed):
		return Misconfigured
	case f.Class == Misconfigured && b != nil && b.rollingOut():
		return Race
	}
	return f.Class
}
