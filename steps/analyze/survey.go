package analyze

import (
	"context"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Survey connects to the cluster that flags name, for a view of its webhooks
// alone. Close it when it is not needed any more.
func Survey(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (*survey.Survey, error) {
	api, err := cluster.Connect(ctx, flags, userAgent)
	if err != nil {
		return nil, err
	}
	return api.Survey, nil
}
