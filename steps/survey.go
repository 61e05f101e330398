package steps

import (
	"context"
	"fmt"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Survey connects to the cluster that flags name, for a view of its webhooks
// alone. Close it when it is not needed any more.
func Survey(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (*survey.Survey, error) {
	cluster, err := kube.Connect(ctx, flags, userAgent)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return survey.New(client), nil
}

// configured bounds how long the webhook configurations of a cluster may take to
// be read. While a request is held they mostly are already.
const configured = 5 * time.Second

// webhooks reads which are called where the webhook of a fault is; none when
// they cannot be read.
func (c *connection) webhooks(ctx context.Context, f webhook.Fault) []webhook.Entry {
	changed := make(chan struct{}, 1)
	following := c.survey.Subscribe(survey.Target{Fault: &f, Match: func(e webhook.Entry) bool {
		return f.Service != "" && e.Service() == f.ServiceKey()
	}}, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer following.Close()
	for late := time.After(configured); !following.Synced(); {
		select {
		case <-changed:
		case <-late:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	var entries []webhook.Entry
	for _, st := range following.Statuses() {
		entries = append(entries, st.Entry)
	}
	return entries
}
