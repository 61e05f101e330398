package analyze

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Guards tells which steps' objects the plan's own webhooks intercept, as far as
// manifests tell, without a cluster. Charts are rendered, and fetched where they
// are not local. The error says which steps could not be read; the guards of
// the others are returned all the same.
func Guards(ctx context.Context, p *plan.Plan) ([]runner.Guard, error) {
	return guard.Find(ctx, p, func(ctx context.Context, s plan.Step) ([]*unstructured.Unstructured, error) {
		if s.Helm == nil {
			return manifest.Applied(p, s)
		}
		chart, err := charts.New(p.In(s), s, metav1.NamespaceDefault)
		if err != nil {
			return nil, err
		}
		return chart.Render(ctx, charts.Capabilities{})
	}, func(string) guard.Known { return guard.Known{} })
}
