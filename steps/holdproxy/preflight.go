package holdproxy

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/steps/preflight"
)

// Preflight looks in the cluster of the current context for what stands in the way of a
// hold, and tells each finding as soon as it has it; with strict also of what the command
// hears by itself. It writes nothing.
func (p *Proxy) Preflight(ctx context.Context, strict bool, found func(finding.Finding)) {
	for _, e := range p.entrances {
		if e.context.Name != p.current {
			continue
		}
		config, err := e.context.Config()
		if err != nil {
			return // the first request says why
		}
		own := rest.CopyConfig(config)
		own.UserAgent, own.Timeout, own.QPS, own.WarningHandler = p.config.UserAgent, 0, -1, rest.NoWarnings{}
		preflight.Hold(ctx, own, p.About(), strict, found)
	}
}
