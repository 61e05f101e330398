package steps

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/guard"
	"github.com/kplan-dev/kplan/steps/helm"
)

// Guards tells which steps' objects the plan's own webhooks intercept, as far as
// manifests tell, without a cluster. Charts are rendered, and fetched where they
// are not local. The error says which steps could not be read; the guards of
// the others are returned all the same.
func Guards(ctx context.Context, p *plan.Plan) ([]runner.Guard, error) {
	return guard.Find(ctx, p, func(ctx context.Context, s plan.Step) ([]*unstructured.Unstructured, error) {
		if s.Helm == nil {
			return apply.Applied(p, s)
		}
		chart, err := helm.NewChart(p.In(s), s, metav1.NamespaceDefault)
		if err != nil {
			return nil, err
		}
		return chart.Render(ctx, helm.Capabilities{})
	}, func(string) guard.Known { return guard.Known{} })
}
