package doctor

import (
	"context"

	"github.com/kplan-dev/kplan/plan/finding"
)

// webhookServicePort finds webhooks that are called at a port that their Service lacks.
var webhookServicePort = Check{
	Rule: finding.Rule{
		ID: "webhook-service-port", Severity: finding.Error,
		Summary:     "A webhook's Service does not have the port that it is called at.",
		Explanation: "Every request that it guards fails. clientConfig.service.port is a port of the Service, not of the container, and 443 when it is left out.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		return c.outages(ctx, func(h hook, o outage) bool { return closedAdmission(h) && o.portless() })
	},
}
