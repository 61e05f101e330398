package doctor

import (
	"context"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// crdConversion finds CRDs whose objects cannot be converted.
var crdConversion = Check{
	Rule: finding.Rule{
		ID: "crd-conversion", Severity: finding.Error,
		Summary: "A CRD's conversion webhook cannot be called.",
		Explanation: "Objects that are stored in another version than is asked for cannot be read, listed, watched or deleted, " +
			"and controllers that watch that version stop. A CRD of one version needs no conversion and is left out.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		return c.outages(ctx, func(h hook, _ outage) bool { return h.Kind == webhook.Conversion })
	},
}
