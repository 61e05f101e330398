package analyze

import (
	"context"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Survey connects to the cluster that flags name, for a view of its webhooks
// alone. Close it when it is not needed any more.
func Survey(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (*survey.Survey, error) {
	cluster, err := cluster.Connect(ctx, flags, userAgent)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return survey.New(client), nil
}
