package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// webhookCertificate finds webhooks whose pods mount a certificate that the API server
// will not trust.
var webhookCertificate = Check{
	Rule: finding.Rule{
		ID: "webhook-certificate", Severity: finding.Error,
		Summary: "A webhook's serving certificate does not fit its configuration.",
		Explanation: "The Secret that its pods mount has a certificate that has expired, is not of an authority in the CA bundle, or is for another name than SERVICE.NAMESPACE.svc. " +
			"A chart that makes a new authority on each render does that on each upgrade until its pods restart. " +
			"Mounted certificates of another authority and for other names are taken for those of another port.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		misfits := func(h hook) misfit {
			if h.Client.Service == nil || h.Backing == nil || h.bundleMissing() || bundleFault(h.Client.CABundle, c.Now) != "" {
				return misfit{} // what is wrong then is another check's
			}
			return h.misfit(c.Now)
		}
		var found []finding.Finding
		for _, g := range alike(c.hooks(ctx), func(h hook) string { return misfits(h).text }) {
			h, m := g[0], misfits(g[0])
			f := finding.Finding{Object: h.Source().String(), Hint: c.renewal(ctx, m, h.host()), Message: fmt.Sprintf("%s cannot be trusted: %s", named(g), m.text)}
			for _, h := range g {
				f.Evidence = append(f.Evidence, h.evidence("clientConfig.caBundle", authorities(h.Client.CABundle)))
			}
			f.Evidence = append(f.Evidence, finding.Evidence{Object: m.source.String(), Field: "tls.crt", Value: m.value})
			found = append(found, c.grade(f, h, m.made))
		}
		return found
	},
}

// misfit is why a mounted certificate does not fit its webhook; it has no text when one
// fits, or none is there.
type misfit struct {
	text, value string
	// other says that the certificate is of another authority.
	other  bool
	source webhook.Object
	made   time.Time
}

// misfit judges the certificates that the pods mount.
func (h hook) misfit(now time.Time) misfit {
	name := h.host()
	r, _ := webhook.ReadLadder(&h.Entry, h.Backing, webhook.Call{}, now).At(webhook.Serving)
	if r.State == webhook.Waiting || r.State == webhook.Failed {
		m := misfit{text: r.Reason, source: r.Source, other: strings.HasSuffix(r.Reason, "authority in the CA bundle")}
		for _, c := range h.Backing.Certificates {
			if c.Source == r.Source && len(c.Chain) > 0 {
				m.made = c.Chain[0].NotBefore
				m.value = fmt.Sprintf("of %s, until %s", cmp.Or(c.Chain[0].Issuer.String(), "an issuer without a name"), timestamp(c.Chain[0].NotAfter))
			}
		}
		return m
	}
	if strings.Contains(r.Reason, " fits;") { // one of them is what the webhook serves
		return misfit{}
	}
	// One for other names is the webhook's if its authority is.
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range webhook.ParseCertificates(h.Client.CABundle) {
		roots.AddCert(c)
	}
	for _, c := range h.Backing.Certificates {
		if len(c.Chain) == 0 {
			continue
		}
		for _, i := range c.Chain[1:] {
			between.AddCert(i)
		}
		leaf := c.Chain[0]
		if leaf.IsCA || leaf.VerifyHostname(name) == nil { // with an authority, the program signs
			continue
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
			continue
		}
		names := cmp.Or(sentence(leaf.DNSNames), "no name")
		return misfit{
			text:  fmt.Sprintf("the certificate in Secret %s is for %s, and not for %s", c.Source.Name, names, name),
			value: "for " + names, source: c.Source, made: leaf.NotBefore,
		}
	}
	return misfit{}
}

// host is the name that the API server asks the certificate for.
func (h hook) host() string { return h.Client.Service.Name + "." + h.Client.Service.Namespace + ".svc" }

// authorities names what a bundle holds.
func authorities(bundle []byte) string {
	var names []string
	for _, c := range webhook.ParseCertificates(bundle) {
		names = append(names, fmt.Sprintf("%s, until %s", cmp.Or(c.Subject.String(), "an authority without a name"), timestamp(c.NotAfter)))
	}
	return strings.Join(names, "; ")
}

// renewal says how a mounted certificate is made anew.
func (c *Cluster) renewal(ctx context.Context, m misfit, name string) string {
	secret, _ := c.metaOf(ctx, secretResource, m.source.Namespace, m.source.Name)
	if secret != nil && secret.Annotations[certificateName] != "" {
		return fmt.Sprintf("see its Certificate: kubectl describe -n %s certificate %s", m.source.Namespace, secret.Annotations[certificateName])
	}
	if m.other {
		return fmt.Sprintf("have what made Secret %s make it and the CA bundle of one authority, and restart the pods that mount it", m.source.Name)
	}
	return fmt.Sprintf("have what made Secret %s make a new one for %s", m.source.Name, name)
}

// certificateName is cert-manager's annotation of the Certificate that a Secret is of.
const certificateName = "cert-manager.io/certificate-name"
