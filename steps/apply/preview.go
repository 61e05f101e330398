package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Preview finds what would become of the step's objects, by dry runs.
func (a *Action) Preview(ctx context.Context, s *cluster.Session) ([]*dryrun.Object, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	objects, errs := make([]*dryrun.Object, len(a.manifests)), make([]error, len(a.manifests))
	var sender dryrun.Sender
	dryrun.Each(len(objects), func(i int) {
		objects[i], errs[i] = a.preview(ctx, s, &sender, a.manifests[i])
	})
	if err := errors.Join(errs...); err != nil || !a.spec.Prune {
		return objects, err
	}
	gone, err := a.previewPrune(ctx, s, objects)
	return append(objects, gone...), err
}

// previewPrune finds what the step would delete.
func (a *Action) previewPrune(ctx context.Context, s *cluster.Session, objects []*dryrun.Object) ([]*dryrun.Object, error) {
	p := newPruner(a, s, nil)
	if there, err := p.readSet(ctx); err != nil || !there {
		return nil, err
	}
	sent := map[Place]bool{}
	for _, o := range objects {
		sent[Place{o.Kind.GroupKind(), o.Namespace, o.Name}] = true
	}
	going, _, err := p.toPrune(ctx, func(o removal.Object) bool {
		return sent[Place{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}]
	})
	var gone []*dryrun.Object
	for _, o := range going {
		d := dryrun.Of(o.Unstructured)
		d.Before = o.Unstructured
		gone = append(gone, d)
	}
	return gone, err
}

func (a *Action) preview(ctx context.Context, s *cluster.Session, sender *dryrun.Sender, m manifest.Object) (*dryrun.Object, error) {
	u := m.DeepCopy()
	if u.GetNamespace() == "" {
		u.SetNamespace(a.namespace)
	}
	if a.spec.Prune {
		a.set.Label(u)
	}
	mapping, err := s.Cluster.Mapping(ctx, u.GroupVersionKind())
	switch {
	case meta.IsNoMatchError(err):
		o := dryrun.Of(u)
		o.Guess(u, fmt.Sprintf("the cluster does not know the kind %s yet", o.Kind.Kind))
		return o, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %s: %w", m.Source, m.ID(), kubeerr.Explain(err, kubeerr.Op{}))
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		u.SetNamespace("")
	}
	o, client := dryrun.Of(u), s.Resource(mapping, u.GetNamespace())
	if o.Before, err = client.Get(ctx, o.Name, metav1.GetOptions{}); err != nil {
		o.Before = nil
		if !apierrors.IsNotFound(err) {
			return nil, kubeerr.Explain(fmt.Errorf("reading %s: %w", o.ID(), err),
				kubeerr.Op{Verb: "get", Resource: mapping.Resource.GroupResource(), Namespace: o.Namespace})
		}
	}
	sender.Ask(ctx, o, u, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return dryApply(ctx, client, u, a.spec.ForceConflicts)
	})
	if apierrors.IsConflict(o.Err) { // what would change if the fields were taken over
		if forced, err := dryApply(ctx, client, u, true); err == nil {
			o.After = forced
		}
	}
	if apierrors.IsInvalid(o.Err) && o.Before != nil && a.spec.OnImmutable == plan.RecreateImmutable {
		o.Err = nil
		o.Guess(u, "it would be deleted and made anew: a field of it cannot be changed")
	}
	if o.Err != nil {
		o.Err = kubeerr.Explain(o.Err, kubeerr.Op{Verb: "patch", Resource: mapping.Resource.GroupResource(), Namespace: o.Namespace})
	}
	return o, nil
}

func dryApply(ctx context.Context, client dynamic.ResourceInterface, u *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, u.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, Force: &force, DryRun: []string{metav1.DryRunAll},
	})
}
