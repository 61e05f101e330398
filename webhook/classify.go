package webhook

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Class says what an error means for the request that met it.
type Class string

// The classes of errors.
const (
	// None: the error is not about a webhook, or it is about one that was not
	// called: it does not support dry runs.
	None Class = "none"
	// Race: the webhook cannot answer yet; the same request will pass later.
	Race Class = "race"
	// Misconfigured: the webhook will not answer until somebody changes
	// something. Some of these heal by themselves while an operator starts or
	// is replaced, so they are held too, for a short grace.
	Misconfigured Class = "misconfigured"
	// Overloaded: the webhook runs and asks for time, or answers with a server error.
	Overloaded Class = "overloaded"
	// Denied: the webhook answered, and its answer is no.
	Denied Class = "denied"
)

// Kind is the way by which a webhook is called.
type Kind string

// The kinds of calls. An error tells Admission only, an [Entry] which of the two.
const (
	// Admission is a call to a validating or mutating webhook.
	Admission Kind = "admission"
	// Validating is a call to a webhook that may refuse an object.
	Validating Kind = "validating"
	// Mutating is a call to a webhook that may change an object as well.
	Mutating Kind = "mutating"
	// Conversion is a call to a CRD's conversion webhook; reads meet it too.
	Conversion Kind = "conversion"
	// Server is the API server itself: it starts, stops, or ran out of time.
	Server Kind = "server"
	// Definition is no call: the API server does not serve the kind, since its
	// CRD is not there or not established. It is a race if somebody installs it.
	Definition Kind = "definition"
)

// Fault is what an error says about a webhook.
type Fault struct {
	Kind  Kind
	Class Class
	// Webhook is the webhook's name; for Conversion what is converted, and for
	// Definition what is not served, as "group/version, Kind=Kind" or
	// "resource.group", or nothing from a client that does not tell; empty for
	// Server.
	Webhook string
	// Service, Namespace and Port are those of the called Service. They are
	// empty when the text has no address (an HTTP status of the webhook, or a
	// webhook with a URL).
	Service, Namespace, Port string
	// URL is the called address as the API server gives it, without its query.
	URL string
	// Cause is why the call failed, or the reason that a denial gives.
	Cause string
	// Message is the API server's whole text.
	Message string
	// MaybeApplied: the request may have been carried out in spite of the error, so
	// it must not be sent again blindly. See [Fault.ForRequest].
	MaybeApplied bool
}

// ServiceKey is namespace/name of the Service, "" when it is not known.
func (f Fault) ServiceKey() string {
	if f.Service == "" {
		return ""
	}
	return f.Namespace + "/" + f.Service
}

// Key names what a request waits for: requests with the same key wait together.
func (f Fault) Key() string {
	if k := f.ServiceKey(); k != "" {
		return "service " + k
	}
	return string(f.Kind) + " " + f.Webhook
}

// Retryable reports whether a request that met the fault did nothing, for certain,
// and may pass when it is sent again later. Why nothing was done:
//   - Admission: webhooks are called before storage (KEP-3488; k8s.io/apiserver
//     pkg/registry/generic/registry/store.go, Create calls createValidation
//     before Storage.Create). A DELETE of a collection calls them for each
//     object: those before the failure are gone, sending it again deletes the rest;
//   - Conversion, unless MaybeApplied: admission or the field manager asked for it,
//     both before storage;
//   - Server: admission plugins that have not synchronised refuse before
//     storage, and a server that starts or stops refuses before it has looked
//     at the request. One that ran over its time is MaybeApplied;
//   - Definition: there was no handler to do anything, or nothing was sent.
//
// Errors of etcd ("leader changed", "request timed out") are not Retryable:
// the write may have been done.
func (f Fault) Retryable() bool {
	return !f.MaybeApplied && (f.Class == Race || f.Class == Misconfigured || f.Class == Overloaded)
}

// ForRequest is the fault as the sender of one request sees it. What is MaybeApplied
// by the text alone is no longer so if the request is idempotent (a read, or a
// write that may be done twice, such as a server-side apply), or if it names
// groupVersion and that is what could not be converted: what was sent is
// converted before it is stored, what was stored is of the stored version.
func (f Fault) ForRequest(groupVersion string, idempotent bool) Fault {
	sent := f.Kind == Conversion && strings.HasPrefix(f.Webhook, groupVersion+", Kind=")
	f.MaybeApplied = f.MaybeApplied && !idempotent && !sent
	return f
}

// Ambiguous reports that the error cannot tell a race from a misconfiguration or
// from something that was left behind. Class is then the likelier one; the
// objects decide:
//   - a Service that is missing, refuses, times out or has no endpoints: read
//     the Service, its EndpointSlices and its pods. Pods that are on their way
//     make it a race. None, or none that ever gets ready, is a stale or broken
//     webhook; ready ones that time out are behind a firewall or a policy;
//   - an unknown authority, a bundle that is not PEM: compare the CA bundle with
//     the certificate in the serving Secret. A bundle that is empty or a
//     placeholder awaits its injector; one that does not fit is stale;
//   - HTTP 404: look at the pods. While they are replaced an old one answers;
//     else configuration and operator are of different versions;
//   - Definition: read the CRD. One that exists is established in moments, or,
//     with the condition InvalidCABundle, when its bundle has been injected. One
//     that does not is a race only if something is about to install it.
func (f Fault) Ambiguous() bool {
	switch {
	case f.Class == Denied || f.Class == None || f.Kind == Server:
		return false
	case f.Kind == Definition:
		return true
	}
	return classifyCause(f.Cause, f.URL == "").ambiguous
}

// Classify reads the status that an API server answered with. The zero Fault
// with class None comes back when it is not about a webhook.
func Classify(s *metav1.Status) Fault {
	if s == nil || s.Status == metav1.StatusSuccess {
		return Fault{Class: None}
	}
	if f, ok := denial(s.Message); ok {
		return f
	}
	if f, ok := noDryRun(s.Message); ok {
		return f
	}
	f := read(s.Message, true)
	if !answers(s, f) {
		return Fault{Class: None}
	}
	if d := s.Details; f.Kind == Definition && d != nil && d.Kind != "" {
		f.Webhook = schema.GroupResource{Group: d.Group, Resource: d.Kind}.String()
	}
	return f
}

// answers reports whether the API server gives such a fault with such a status. A
// text alone may be quoted by other errors.
func answers(s *metav1.Status, f Fault) bool {
	switch {
	case f.Kind == Definition:
		return s.Code == http.StatusNotFound && s.Reason == metav1.StatusReasonNotFound
	case f.Kind == Server && f.Cause == notReady:
		return s.Code == http.StatusForbidden && s.Reason == metav1.StatusReasonForbidden
	case f.Kind == Server && f.MaybeApplied:
		return s.Code == http.StatusGatewayTimeout && s.Reason == metav1.StatusReasonTimeout
	case f.Kind == Server:
		return s.Code == http.StatusServiceUnavailable && s.Reason == metav1.StatusReasonServiceUnavailable
	}
	// Failures of both kinds of webhooks are server errors: reason InternalError
	// in admission, an empty one where an object is read or stored.
	return s.Code >= http.StatusInternalServerError &&
		(s.Reason == metav1.StatusReasonInternalError || s.Reason == metav1.StatusReasonUnknown)
}
