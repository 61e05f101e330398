package doctor

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kplan-dev/kplan/plan/finding"
)

// webhookCAMissing finds webhooks for which nobody has filled in a CA bundle. Each entry
// is looked at: an injector that goes by fixed places leaves out what a later version
// has added.
var webhookCAMissing = Check{
	Rule: finding.Rule{
		ID: "webhook-ca-missing", Severity: finding.Error,
		Summary: "A webhook has no CA bundle.",
		Explanation: "The API server trusts no certificate of it (x509: certificate signed by unknown authority). " +
			"Who fills it in is told by an annotation of cert-manager or OpenShift, or is a hook Job of the release, or the webhook's own program. " +
			"Where other entries of the same configuration have one, the injector does not know of these.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		groups := alike(c.hooks(ctx), func(h hook) string {
			if h.bundleMissing() && !h.outage().gone() {
				return h.Service()
			}
			return ""
		})
		for _, g := range groups {
			i := c.injection(ctx, g[0])
			if i.itself && g[0].outage().is() {
				continue // it fills it in when it runs, and why it does not is told by another check
			}
			found = append(found, c.bundleMissing(ctx, g, i))
		}
		return found
	},
	mend: copyBundle,
}

// bundleMissing reports whether the CA bundle is empty. White space is a placeholder:
// charts ship "Cg==", which is a line feed. By a URL the API server trusts what its
// system trusts.
func (h hook) bundleMissing() bool {
	return h.Client.Service != nil && len(bytes.TrimSpace(h.Client.CABundle)) == 0
}

// bundleMissing says who was to fill in the bundle.
func (c *Cluster) bundleMissing(ctx context.Context, group []hook, i injection) finding.Finding {
	h := group[0]
	f := finding.Finding{Object: h.Source().String(), Hint: i.hint, Message: fmt.Sprintf("%s cannot be trusted: the CA bundle is empty", named(group))}
	for _, h := range group {
		f.Evidence = append(f.Evidence, h.evidence("clientConfig.caBundle", "empty"))
	}
	for _, s := range c.hooks(ctx) {
		if s.Source() == h.Source() && s.Service() == h.Service() && !s.bundleMissing() {
			f.Message = fmt.Sprintf("%s cannot be trusted: the CA bundle is empty, while webhook %q has one", named(group), s.Name)
			f.Evidence = append(f.Evidence, s.evidence("clientConfig.caBundle", "filled in"))
			if i.itself {
				i.text = ""
				f.Hint = fmt.Sprintf("what fills it in leaves some out, as a script does that goes by their numbers: run a newer one, or copy the bundle of %s", s.path)
			}
			break
		}
	}
	if i.text != "" {
		f.Message += "; " + i.text
	}
	f.Evidence = append(f.Evidence, i.evidence...)
	return c.grade(f, h)
}
