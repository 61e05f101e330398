package analyze

import (
	"context"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Guards tells which steps' objects the plan's own webhooks intercept, as far as
// manifests tell, without a cluster. Charts are rendered, and fetched where they
// are not local. The error says which steps could not be read; the guards of
// the others are returned all the same.
func Guards(ctx context.Context, p *plan.Plan) ([]runner.Guard, error) {
	return guard.Find(ctx, p, func(ctx context.Context, s plan.Step) ([]manifest.Object, error) {
		return manifest.Planned(ctx, s)
	}, func(string) guard.Known { return guard.Known{} })
}
