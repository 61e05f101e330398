package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/steps/internal/podlog"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Shared is what the steps on one cluster share.
type Shared struct {
	Cluster *Cluster
	client  dynamic.Interface
	// Pods is where what pods say is read from.
	Pods   *podlog.Source
	Survey *survey.Survey
	Gate   *hold.Gate
}

// Labels reads those of namespaces that exist.
func (c *Shared) Labels(ctx context.Context) func(string) (map[string]string, bool) {
	return func(name string) (map[string]string, bool) {
		ns, err := c.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, false
		}
		return ns.GetLabels(), true
	}
}

// configured bounds how long the webhook configurations of a cluster may take to
// be read. While a request is held they mostly are already.
const configured = 5 * time.Second

// Webhooks reads which are called where the webhook of a fault is; none when
// they cannot be read.
func (c *Shared) Webhooks(ctx context.Context, f webhook.Fault) []webhook.Entry {
	changed := make(chan struct{}, 1)
	following := c.Survey.Subscribe(survey.Target{Fault: &f, Match: func(e webhook.Entry) bool {
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

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
