package doctor

import (
	"context"

	"github.com/kplan-dev/kplan/plan/finding"
)

// webhookNoEndpoints finds webhooks behind whose Service nothing is ready.
var webhookNoEndpoints = Check{
	Rule: finding.Rule{
		ID: "webhook-no-endpoints", Severity: finding.Error,
		Summary:     "Nothing is ready behind a webhook's Service.",
		Explanation: "Every request that it guards fails until a pod of it is ready. The reason is that of the pod with the gravest trouble, or of what should make pods.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		return c.outages(ctx, func(h hook, o outage) bool { return closedAdmission(h) && o.unbacked() })
	},
}
