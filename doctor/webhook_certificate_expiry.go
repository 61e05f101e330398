package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

const (
	// soon is the time before its end at which a certificate that somebody has entered
	// is told.
	soon = 30 * 24 * time.Hour
	// late is that of a certificate that a program in the cluster has entered, and will
	// renew: Knative does a day before, Kyverno 60 hours (kyverno/kyverno
	// pkg/tls/renewer.go), cert-manager after two thirds of its life.
	late = 12 * time.Hour
)

// webhookCertificateExpiry finds certificates that are about to expire, and that nobody
// is known to renew.
var webhookCertificateExpiry = Check{
	Rule: finding.Rule{
		ID: "webhook-certificate-expiry", Severity: finding.Warning,
		Summary: "A webhook's CA bundle or serving certificate expires soon.",
		Explanation: "Within 30 days for one that Helm, kubectl or another client has written, for nobody renews that. " +
			"Within 12 hours for one that a program in the cluster has written: those renew late, by design.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		for _, g := range alike(c.hooks(ctx), func(h hook) string { return c.expiry(ctx, h).text }) {
			h, e := g[0], c.expiry(ctx, g[0])
			f := finding.Finding{Object: h.Source().String(), Message: fmt.Sprintf("%s will not be trusted any more: %s", named(g), e.text), Hint: e.hint}
			for _, h := range g {
				f.Evidence = append(f.Evidence, h.evidence("clientConfig.caBundle", authorities(h.Client.CABundle)))
			}
			if e.source.Kind == "Secret" {
				f.Evidence = append(f.Evidence, finding.Evidence{Object: e.source.String(), Field: "tls.crt", Value: "until " + timestamp(e.at)})
			}
			if e.writer != "" {
				f.Evidence = append(f.Evidence, finding.Evidence{Object: e.source.String(), Field: "metadata.managedFields", Value: "written by " + e.writer})
			}
			found = append(found, f)
		}
		return found
	},
}

// expiry is what of a webhook is about to end; it has no text when nothing is.
type expiry struct {
	text, hint, writer string
	source             webhook.Object
	at                 time.Time
}

// expiry looks at the CA bundle and then at the certificates that the pods mount and that
// are for the webhook.
func (c *Cluster) expiry(ctx context.Context, h hook) expiry {
	if h.Client.Service == nil || h.outage().gone() {
		return expiry{}
	}
	if ca := longest(webhook.ParseCertificates(h.Client.CABundle)); ca != nil && c.ends(ca, soon) {
		o, _ := c.get(ctx, h.resource(), "", h.Configuration)
		var fields []metav1.ManagedFieldsEntry
		if o != nil {
			fields = o.GetManagedFields()
		}
		writer := writerOf(fields, "f:caBundle")
		if !written(writer) && !c.ends(ca, late) {
			return expiry{}
		}
		return expiry{
			text: "the CA bundle expires " + c.until(ca.NotAfter), writer: writer, source: h.Source(), at: ca.NotAfter,
			hint: "make a new authority before, and enter it beside the old one",
		}
	}
	if h.Backing == nil {
		return expiry{}
	}
	for _, m := range h.Backing.Certificates {
		if len(m.Chain) == 0 || m.Chain[0].IsCA || m.Chain[0].VerifyHostname(h.host()) != nil || !c.ends(m.Chain[0], soon) {
			continue
		}
		var fields []metav1.ManagedFieldsEntry
		if secret, _ := c.metaOf(ctx, secretResource, m.Source.Namespace, m.Source.Name); secret != nil {
			fields = secret.ManagedFields
		}
		writer := writerOf(fields, "f:tls.crt")
		if !written(writer) && !c.ends(m.Chain[0], late) {
			continue
		}
		end := m.Chain[0].NotAfter
		return expiry{
			text: fmt.Sprintf("the certificate in Secret %s expires %s", m.Source.Name, c.until(end)), writer: writer, source: m.Source, at: end,
			hint: fmt.Sprintf("have what made Secret %s make a new one", m.Source.Name),
		}
	}
	return expiry{}
}

// ends reports whether a certificate is in force, and ends within a time.
func (c *Cluster) ends(certificate *x509.Certificate, within time.Duration) bool {
	left := certificate.NotAfter.Sub(c.Now)
	return left > 0 && left < within
}

// until is a time to come: in 19 days, at 2026-01-20T00:00:00Z.
func (c *Cluster) until(end time.Time) string {
	left := end.Sub(c.Now)
	if days := int(left / (24 * time.Hour)); days > 1 {
		return fmt.Sprintf("in %d days, at %s", days, timestamp(end))
	}
	return fmt.Sprintf("in %d hours, at %s", int(left/time.Hour), timestamp(end))
}

// writerOf is the field manager that wrote a field last; "" when none is told.
func writerOf(entries []metav1.ManagedFieldsEntry, field string) string {
	var last metav1.ManagedFieldsEntry
	for _, e := range entries {
		if e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"`+field+`"`)) && (last.Time == nil || e.Time != nil && !e.Time.Before(last.Time)) {
			last = e
		}
	}
	return last.Manager
}

// clients are the field managers of programs that people and pipelines run, and that
// write what they are given: they renew nothing.
var clients = []string{"helm", "kubectl", "kplan", "kustomize", "argocd", "flux", "terraform", "pulumi", "kapp"}

// written reports whether a field manager is such a program, kubectl-create for kubectl.
func written(manager string) bool {
	return slices.ContainsFunc(clients, func(name string) bool { return strings.HasPrefix(strings.ToLower(manager), name) })
}
