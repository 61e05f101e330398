package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// webhookCAInvalid finds CA bundles by which no certificate can be trusted.
var webhookCAInvalid = Check{
	Rule: finding.Rule{
		ID: "webhook-ca-invalid", Severity: finding.Error,
		Summary:     "A webhook's CA bundle holds no certificate that is in force.",
		Explanation: "It is not PEM, or all its certificates have expired or are from the future. The API server does not call the webhook. One old certificate beside one that is in force is no fault: authorities are replaced so.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		groups := alike(c.hooks(ctx), func(h hook) string {
			if h.bundleMissing() || h.outage().gone() {
				return ""
			}
			return bundleFault(h.Client.CABundle, c.Now)
		})
		var found []finding.Finding
		for _, g := range groups {
			h, why := g[0], bundleFault(g[0].Client.CABundle, c.Now)
			f := finding.Finding{Object: h.Source().String(), Message: fmt.Sprintf("%s cannot be trusted: the CA bundle %s", named(g), why)}
			for _, h := range g {
				f.Evidence = append(f.Evidence, h.evidence("clientConfig.caBundle", why))
			}
			i := c.injection(ctx, h)
			f.Evidence = append(f.Evidence, i.evidence...)
			f.Hint = i.hint
			if i.text != "" {
				f.Message += "; " + i.text
			}
			found = append(found, c.grade(f, h))
		}
		return found
	},
}

// bundleFault says why nothing can be trusted by a bundle; "" when something can.
func bundleFault(bundle []byte, now time.Time) string {
	if len(bundle) == 0 { // of a URL, for which the API server's system roots count
		return ""
	}
	all := webhook.ParseCertificates(bundle)
	if len(all) == 0 {
		return "holds no certificate"
	}
	last := longest(all)
	for _, c := range all {
		if !now.Before(c.NotBefore) && !now.After(c.NotAfter) {
			return ""
		}
	}
	if now.Before(last.NotBefore) {
		return "is not valid before " + timestamp(last.NotBefore)
	}
	return "expired at " + timestamp(last.NotAfter)
}

// longest is the certificate that is in force longest.
func longest(all []*x509.Certificate) *x509.Certificate {
	var last *x509.Certificate
	for _, c := range all {
		if last == nil || c.NotAfter.After(last.NotAfter) {
			last = c
		}
	}
	return last
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
