package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan/finding"
)

// The API groups of cert-manager.
const (
	certManager = "cert-manager.io"
	acme        = "acme.cert-manager.io"
)

const (
	// issuing is how long an issuance may take while nothing has failed.
	issuing = 2 * time.Minute
	// issuingLong is how long one may take at most: a DNS record takes minutes to spread.
	issuingLong = 10 * time.Minute
)

var certificateNotReady = Check{
	Rule: finding.Rule{
		ID: "certificate-not-ready", Severity: finding.Error,
		Summary: "cert-manager does not issue a Certificate.",
		Explanation: "Pods that mount its Secret do not start, and a certificate that is not renewed expires. After a failure " +
			"cert-manager waits an hour before the next attempt, and twice as long after each further one, up to 32 hours.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		for _, o := range c.custom(ctx, certManager, "certificates") {
			if f, bad := c.certificate(ctx, o); bad {
				found = append(found, f)
			}
		}
		return found
	},
}

// certificate says why a Certificate is not issued, or not renewed.
func (c *Cluster) certificate(ctx context.Context, o *unstructured.Unstructured) (f finding.Finding, bad bool) {
	ready := conditionOf(o, "Ready")
	failed, _ := time.Parse(time.RFC3339, field(o, "status", "lastFailureTime"))
	age := c.Now.Sub(latest(ready.since, o.GetCreationTimestamp().Time))
	switch {
	case o.GetDeletionTimestamp() != nil, ready.status == "True" && failed.IsZero():
		return f, false
	case failed.IsZero() && age < issuing:
		return f, false
	}
	links := c.issuance(ctx, o)
	f = finding.Finding{Object: nameOf(o), Evidence: []finding.Evidence{ready.evidence(nameOf(o))}}
	cause := link{why: cmp.Or(ready.why(), "nobody has looked at it: is the controller of cert-manager running?")}
	for _, l := range links {
		f.Evidence = append(f.Evidence, l.evidence)
		if l.why != "" {
			cause = l
		}
	}
	f.Message = "is not issued: " + cause.why
	if failed.IsZero() && age < issuingLong {
		f.Severity = finding.Warning
	}
	if ready.status == "True" {
		f.Severity = finding.Warning
		f.Message = fmt.Sprintf("is valid until %s, and cannot be renewed: %s", stamp(field(o, "status", "notAfter")), cause.why)
	}
	f.Hint = cmp.Or(cause.hint, "see "+describe("certificate", o.GetNamespace(), o.GetName()))
	if attempts, _, _ := unstructured.NestedInt64(o.Object, "status", "failedIssuanceAttempts"); !failed.IsZero() {
		next := failed.Add(backoff(attempts))
		f.Evidence = append(f.Evidence, finding.Evidence{
			Object: nameOf(o), Field: "status.lastFailureTime",
			Value: fmt.Sprintf("%s, attempt %d", failed.UTC().Format(time.RFC3339), max(1, attempts)),
		})
		when := "is due"
		if next.After(c.Now) {
			when = "is at " + next.UTC().Format("2006-01-02 15:04 MST")
		}
		f.Message += "; the next attempt " + when
		f.Hint += fmt.Sprintf("; mend the cause, then start the next attempt: cmctl renew -n %s %s", o.GetNamespace(), o.GetName())
	}
	return f, true
}

// backoff is how long cert-manager waits after failed attempts (cert-manager
// pkg/controller/certificates/trigger/trigger_controller.go, shouldBackoffReissuingOnFailure).
func backoff(attempts int64) time.Duration {
	const most = 6 // 2^5 is 32
	return time.Hour << (min(max(1, attempts), most) - 1)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// stamp is a time of an object without its seconds.
func stamp(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04 MST")
}

// link is one object of the chain from a Certificate to its Secret. why says what is
// wrong with it; "" is nothing.
type link struct {
	evidence  finding.Evidence
	why, hint string
}

// issuance reads the chain of a Certificate. The last fault in it is the cause.
func (c *Cluster) issuance(ctx context.Context, o *unstructured.Unstructured) []link {
	ns := o.GetNamespace()
	request := c.certificateRequest(ctx, o)
	var links []link
	if request != nil {
		links = append(links, requestLink(request))
	} else if conditionOf(o, "Ready").typ != "" {
		links = append(links, link{evidence: finding.Evidence{Object: nameOf(o), Field: "CertificateRequests", Value: "none"}})
	}
	if l, ok := c.issuer(ctx, o); ok {
		links = append(links, l)
	}
	if request != nil {
		links = append(links, c.orders(ctx, request)...)
	}
	name := field(o, "spec", "secretName")
	if there, known := c.exists(ctx, secretResource, ns, name); known {
		value := "does not exist"
		if there {
			value = "exists"
		}
		links = append(links, link{evidence: finding.Evidence{Object: object("Secret", ns, name), Field: "metadata", Value: value}})
	}
	return links
}

// certificateRequest is the newest one of a Certificate; nil without.
func (c *Cluster) certificateRequest(ctx context.Context, certificate *unstructured.Unstructured) *unstructured.Unstructured {
	var newest *unstructured.Unstructured
	revision := func(o *unstructured.Unstructured) int {
		n, _ := strconv.Atoi(o.GetAnnotations()["cert-manager.io/certificate-revision"])
		return n
	}
	for _, o := range c.custom(ctx, certManager, "certificaterequests") {
		if o.GetNamespace() != certificate.GetNamespace() ||
			!owned(o, "Certificate", certificate.GetName()) && o.GetAnnotations()["cert-manager.io/certificate-name"] != certificate.GetName() {
			continue
		}
		if newest == nil || cmp.Or(cmp.Compare(revision(o), revision(newest)),
			o.GetCreationTimestamp().Compare(newest.GetCreationTimestamp().Time)) > 0 {
			newest = o
		}
	}
	return newest
}

func requestLink(o *unstructured.Unstructured) link {
	for _, typ := range []string{"Denied", "InvalidRequest"} {
		if is := conditionOf(o, typ); is.status == "True" {
			return link{is.evidence(nameOf(o)), "CertificateRequest " + o.GetName() + " is refused: " + is.why(), "see " + describe("certificaterequest", o.GetNamespace(), o.GetName())}
		}
	}
	ready := conditionOf(o, "Ready")
	l := link{evidence: ready.evidence(nameOf(o)), hint: "see " + describe("certificaterequest", o.GetNamespace(), o.GetName())}
	switch {
	case ready.typ == "" && conditionOf(o, "Approved").status != "True":
		l.why = "CertificateRequest " + o.GetName() + " is not approved"
	case ready.typ == "":
		l.why = "nobody has answered CertificateRequest " + o.GetName()
	case ready.status != "True":
		l.why = "CertificateRequest " + o.GetName() + ": " + ready.why()
	}
	return l
}

// orders are the Order of a CertificateRequest and its Challenge that is not done.
func (c *Cluster) orders(ctx context.Context, request *unstructured.Unstructured) []link {
	var links []link
	for _, order := range c.custom(ctx, acme, "orders") {
		if order.GetNamespace() != request.GetNamespace() || !owned(order, "CertificateRequest", request.GetName()) {
			continue
		}
		links = append(links, acmeLink(order, "Order "+order.GetName()))
		for _, o := range c.custom(ctx, acme, "challenges") {
			if o.GetNamespace() == order.GetNamespace() && owned(o, "Order", order.GetName()) {
				links = append(links, acmeLink(o, fmt.Sprintf("%s challenge of %s", field(o, "spec", "type"), field(o, "spec", "dnsName"))))
			}
		}
	}
	return links
}

// acmeLink reads the state that Orders and Challenges have.
func acmeLink(o *unstructured.Unstructured, what string) link {
	state, reason := cmp.Or(field(o, "status", "state"), "not started"), clause(field(o, "status", "reason"))
	l := link{
		evidence: finding.Evidence{Object: nameOf(o), Field: "status.state", Value: joined(state, reason)},
		hint:     "see " + describe(o.GetKind(), o.GetNamespace(), o.GetName()),
	}
	if state != "valid" {
		l.why = joined(what+" is "+state, reason)
	}
	return l
}

// joined puts a reason behind what it is for.
func joined(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
