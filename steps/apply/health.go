package apply

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// Health reads how the step's objects stand. Nothing is sent.
func (a *Action) Health(ctx context.Context, s *cluster.Session) ([]watch.Standing, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	r := newRun(a, s, nil)
	judge := watch.Judge(ctx, s)
	var all []watch.Standing
	for _, m := range a.manifests {
		mapping, err := s.Cluster.Mapping(ctx, m.GroupVersionKind())
		switch {
		case meta.IsNoMatchError(err):
			all = append(all, watch.Standing{
				Target: watch.TargetOf(m.Unstructured), Missing: true,
				Reading: watch.Reading{State: watch.Waiting, Reason: "the cluster does not know the kind " + m.GetKind()},
			})
		case err != nil:
			return nil, kubeerr.Explain(err, kubeerr.Op{})
		default:
			r.add(m, mapping, false)
		}
	}
	live, err := r.reader.readAll(ctx, r.items)
	if err != nil {
		return nil, err
	}
	var controllers drift.Controllers
	for _, u := range live {
		if u != nil {
			controllers.Saw(u)
		}
	}
	for i, it := range r.items {
		standing := watch.Stand(watch.TargetOf(it.Unstructured), live[i], judge)
		if live[i] != nil {
			for _, f := range drift.Of(it.Unstructured, live[i], fieldManager) {
				if !controllers.Left(f) {
					standing.Drift = append(standing.Drift, f)
				}
			}
		}
		all = append(all, standing)
	}
	return all, nil
}

// readAll reads the objects as they are, in the order of items; nil for those that are
// missing.
func (r *reader) readAll(ctx context.Context, items []*item) ([]*unstructured.Unstructured, error) {
	if err := r.survey(ctx, items); err != nil {
		return nil, err
	}
	var (
		gets errgroup.Group
		mu   sync.Mutex
		none error
	)
	gets.SetLimit(inFlight)
	for _, it := range items {
		if it.read {
			continue
		}
		gets.Go(func() error {
			err := r.ask(ctx, it)
			if err == nil && it.hidden {
				_, err = it.client.Get(ctx, it.GetName(), metav1.GetOptions{}) // for its error
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				none = kubeerr.Explain(err, kubeerr.Op{Verb: "get", Resource: it.mapping.Resource.GroupResource(), Namespace: it.GetNamespace()})
			}
			return nil
		})
	}
	_ = gets.Wait()
	live := make([]*unstructured.Unstructured, len(items))
	for i, it := range items {
		live[i] = it.before
	}
	return live, none
}
