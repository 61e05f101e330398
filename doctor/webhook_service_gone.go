package doctor

import (
	"context"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// webhookServiceGone finds configurations that were left behind, mostly by an uninstall
// that was cut short.
var webhookServiceGone = Check{
	Rule: finding.Rule{
		ID: "webhook-service-gone", Severity: finding.Error,
		Summary:     "A webhook's Service does not exist.",
		Explanation: "Every request that it guards fails, in all namespaces that it selects. A configuration whose Helm release is gone as well was left behind: delete it.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		return c.outages(ctx, func(h hook, o outage) bool { return closedAdmission(h) && o.gone() })
	},
	mend: removeLeftBehind,
}

// closedAdmission reports whether requests that a webhook guards fail when it cannot be
// called. Those that are past it are webhook-fail-open's, conversions crd-conversion's.
func closedAdmission(h hook) bool { return h.Kind != webhook.Conversion && !h.failsOpen() }
