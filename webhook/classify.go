package webhook

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class says what an error means for the request that met it.
type Class string

// The classes of errors.
const (
	// None: the error is not about a webhook.
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
	// Server is the API server itself, which is not ready to admit anything.
	Server Kind = "server"
)

// Fault is what an error says about a webhook.
type Fault struct {
	Kind  Kind
	Class Class
	// Webhook is the webhook's name; for Conversion the group/version and kind; empty for Server.
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

// Waitable tells whether a request that met the fault was not persisted and
// may be admitted when it is sent again later.
func (f Fault) Waitable() bool {
	return f.Class == Race || f.Class == Misconfigured || f.Class == Overloaded
}

// The texts come from k8s.io/apiserver: pkg/util/webhook/error.go
// (ErrCallingWebhook), pkg/admission/plugin/webhook/errors/statuserror.go
// (denials), and k8s.io/apiextensions-apiserver
// pkg/apiserver/conversion/webhook_converter.go.
var (
	callRE       = regexp.MustCompile(`(?s)failed calling webhook "([^"]*)": (.*)$`)
	conversionRE = regexp.MustCompile(`(?s)conversion webhook for (.+?) failed: (.*)$`)
	deniedRE     = regexp.MustCompile(`(?s)^admission webhook "([^"]*)" denied the request(?: without explanation)?:? ?(.*)$`)
	noDryRunRE   = regexp.MustCompile(`^admission webhook "([^"]*)" does not support dry run`)
	postRE       = regexp.MustCompile(`(?s)^Post "([^"]*)": (.*)$`)
	serviceRE    = regexp.MustCompile(`^https://([^./:]+)\.([^./:]+)\.svc(?::(\d+))?(?:/|$)`)
)

// Classify reads the status that an API server answered with. The zero Fault
// with class None comes back when it is not about a webhook.
func Classify(s *metav1.Status) Fault {
	if s == nil || s.Status == metav1.StatusSuccess {
		return Fault{Class: None}
	}
	msg := s.Message
	// A denial is an answer whatever it goes on to say; it may quote any of the
	// other texts, so it is looked for first and only at the start.
	if m := deniedRE.FindStringSubmatch(msg); m != nil {
		return Fault{Kind: Admission, Class: Denied, Webhook: m[1], Cause: m[2], Message: msg}
	}
	if m := noDryRunRE.FindStringSubmatch(msg); m != nil {
		return Fault{Kind: Admission, Class: None, Webhook: m[1], Message: msg}
	}
	if s.Reason == metav1.StatusReasonForbidden && strings.Contains(msg, "not yet ready to handle request") {
		return Fault{Kind: Server, Class: Race, Cause: "not yet ready to handle request", Message: msg}
	}
	// Both kinds of failures are server errors: reason InternalError in
	// admission, an empty reason where a read met a conversion failure.
	if s.Code < 500 {
		return Fault{Class: None}
	}
	if s.Reason != metav1.StatusReasonInternalError && s.Reason != metav1.StatusReasonUnknown {
		return Fault{Class: None}
	}
	return ClassifyText(msg)
}

// ClassifyText reads the text of a server error, for callers which have lost
// the status. Prefer [Classify]: a text alone can quote another error.
func ClassifyText(text string) Fault {
	msg := strings.TrimPrefix(text, "Internal error occurred: ")
	if m := deniedRE.FindStringSubmatch(msg); m != nil {
		return Fault{Kind: Admission, Class: Denied, Webhook: m[1], Cause: m[2], Message: text}
	}
	f := Fault{Message: text}
	switch {
	case strings.HasPrefix(msg, "failed calling webhook"):
		m := callRE.FindStringSubmatch(msg)
		if m == nil {
			return Fault{Class: None}
		}
		f.Kind, f.Webhook, f.Cause = Admission, m[1], strings.TrimPrefix(m[2], "failed to call webhook: ")
	case strings.HasPrefix(msg, "conversion webhook for "):
		m := conversionRE.FindStringSubmatch(msg)
		if m == nil {
			return Fault{Class: None}
		}
		f.Kind, f.Webhook, f.Cause = Conversion, m[1], m[2]
	case strings.HasPrefix(msg, "unable to load root certificates: "):
		// A CA bundle which is not PEM; some API servers do not wrap it.
		f.Kind, f.Cause = Admission, msg
	default:
		return Fault{Class: None}
	}
	f.address()
	f.Class = classOf(f.Cause)
	return f
}

// address moves the called URL out of the cause.
func (f *Fault) address() {
	m := postRE.FindStringSubmatch(f.Cause)
	if m == nil {
		return
	}
	f.URL, f.Cause = m[1], m[2]
	if i := strings.IndexByte(f.URL, '?'); i >= 0 {
		f.URL = f.URL[:i]
	}
	if s := serviceRE.FindStringSubmatch(f.URL); s != nil {
		f.Service, f.Namespace, f.Port = s[1], s[2], s[3]
	}
}
