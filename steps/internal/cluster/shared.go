package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/steps/internal/podlog"
	"github.com/kplan-dev/kplan/steps/internal/stall"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Shared is what the steps on one cluster share besides its kinds. Its requests are
// not held for webhooks.
type Shared struct {
	Client dynamic.Interface
	// Pods is where what pods say is read from.
	Pods *podlog.Source
	// Survey is how the cluster's webhooks stand, and Gate what holds for them.
	Survey *survey.Survey
	Gate   *hold.Gate
	// Restarts are how often containers had been started anew before the run.
	Restarts *stall.Restarts
}

// NewShared makes what steps share over a configuration. Nobody is asked before
// somebody wants to know. The caller closes the survey.
func NewShared(config *rest.Config) (*Shared, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	view := survey.New(client)
	return &Shared{
		Client: client, Pods: podlog.NewSource(pods), Survey: view, Gate: hold.NewGate(view), Restarts: new(stall.Restarts),
	}, nil
}

// Labels reads those of namespaces that exist, each once.
func (s *Shared) Labels(ctx context.Context) func(string) (map[string]string, bool) {
	var known sync.Map
	return func(name string) (map[string]string, bool) {
		if labels, ok := known.Load(name); ok {
			return labels.(map[string]string), true
		}
		ns, err := s.Client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, false
		}
		known.Store(name, ns.GetLabels())
		return ns.GetLabels(), true
	}
}

// configured bounds how long the webhook configurations of a cluster may take to
// be read. While a request is held they mostly are already.
const configured = 5 * time.Second

// Webhooks reads which are called where the webhook of a fault is; none when
// they cannot be read, or nobody knows.
func (s *Shared) Webhooks(ctx context.Context, f webhook.Fault) []webhook.Entry {
	if s.Survey == nil {
		return nil
	}
	changed := make(chan struct{}, 1)
	following := s.Survey.Subscribe(survey.Target{Fault: &f, Match: func(e webhook.Entry) bool {
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
