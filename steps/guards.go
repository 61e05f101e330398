package steps

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/guard"
	"github.com/kplan-dev/kplan/steps/helm"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Guards tells which steps' objects the plan's own webhooks intercept, as far as
// manifests tell, without a cluster. Charts are rendered, and fetched where they
// are not local. The error says which steps could not be read; the guards of
// the others are returned all the same.
func Guards(ctx context.Context, p *plan.Plan) ([]runner.Guard, error) {
	return guard.Find(ctx, p, func(ctx context.Context, s plan.Step) ([]*unstructured.Unstructured, error) {
		if s.Helm == nil {
			return applied(p, s)
		}
		chart, err := helm.NewChart(p.In(s), s, metav1.NamespaceDefault)
		if err != nil {
			return nil, err
		}
		return chart.Render(ctx, helm.Capabilities{})
	}, func(string) guard.Known { return guard.Known{} })
}

// Guards is as the function of that name, with what the clusters know that are
// connected, and with the charts that the steps fetch anyway. What cannot be
// read is left out: its step will say why. Guards of steps that have begun to send are
// marked as late.
func (s *Steps) Guards(ctx context.Context) []runner.Guard {
	known := map[string]guard.Known{}
	has := map[string]helm.Capabilities{}
	for name, l := range s.links {
		conn := l.now()
		if conn == nil {
			continue
		}
		served, version, err := conn.cluster.Serves(ctx)
		if err != nil {
			continue
		}
		known[name] = guard.Known{Served: served, Labels: conn.labels(ctx)}
		has[name] = helm.Capabilities{Version: version, APIs: versions(served)}
	}
	guards, _ := guard.Find(ctx, s.plan, func(ctx context.Context, step plan.Step) ([]*unstructured.Unstructured, error) {
		s.mu.Lock()
		chart := s.charts[step.Name]
		s.mu.Unlock()
		if chart.Chart != nil {
			return chart.Render(ctx, has[s.plan.StepCluster(step)])
		}
		return applied(s.plan, step)
	}, func(cluster string) guard.Known { return known[cluster] })
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range guards {
		guards[i].Late = s.sent[g.Step]
	}
	return guards
}

// applied are the objects of an apply step; other kinds send none that are known.
func applied(p *plan.Plan, s plan.Step) ([]*unstructured.Unstructured, error) {
	if s.Apply == nil {
		return nil, nil
	}
	return apply.Objects(p.In(s), *s.Apply)
}

// versions lists API versions and kinds as charts ask for them.
func versions(served []*metav1.APIResourceList) []string {
	var all []string
	for _, l := range served {
		all = append(all, l.GroupVersion)
		for _, r := range l.APIResources {
			all = append(all, l.GroupVersion+"/"+r.Kind)
		}
	}
	return all
}

// labels reads those of namespaces that exist.
func (c *connection) labels(ctx context.Context) func(string) (map[string]string, bool) {
	return func(name string) (map[string]string, bool) {
		ns, err := c.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, false
		}
		return ns.GetLabels(), true
	}
}
