package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// crdsLabel of a revision says what its step did with the chart's crds folder.
const crdsLabel = "kplan.dev/crds"

// sendCRDs brings the CustomResourceDefinitions of the chart's crds folder to what the
// chart has, where the step says so: Helm itself only creates them. Those of a revision
// that is there already are sent once; again says that there is to be no new one.
func (o *operation) sendCRDs(again bool) error {
	if o.Spec.CRDPolicy() != plan.UpgradeCRDs || again && o.last.Labels[crdsLabel] == string(plan.UpgradeCRDs) {
		return nil
	}
	var sent engine.ResourceList
	for _, crd := range o.chart.CRDObjects() {
		objects, err := charts.Decode(string(crd.File.Data))
		if err != nil {
			return fmt.Errorf("%s: %w", crd.Filename, err)
		}
		for _, u := range objects {
			if err := o.sendCRD(u); err != nil {
				return err
			}
			info, err := (reader{o.client.session}).infoOf(o.ctx, u)
			if err != nil {
				return err
			}
			sent = append(sent, info)
		}
	}
	if err := o.client.ready(sent, targets(sent, isAwaited)); err != nil || !again {
		return err
	}
	o.last.Labels = maps.Clone(o.last.Labels)
	o.last.Labels[crdsLabel] = string(plan.UpgradeCRDs)
	return o.records.Update(engine.Key(o.last.Name, o.last.Version), o.last)
}

// sendCRD sends one by server-side apply. Fields that Helm once created it with, and that
// the chart has no more, go.
func (o *operation) sendCRD(u *unstructured.Unstructured) error {
	s := o.client.session
	mapping, err := s.Cluster.Mapping(o.ctx, u.GroupVersionKind())
	if err != nil {
		return err
	}
	resource := s.Resource(mapping, u.GetNamespace())
	op := kubeerr.Op{Verb: "patch", Resource: mapping.Resource.GroupResource()}
	live, err := resource.Get(o.ctx, u.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err == nil:
		live, err = applied(o.ctx, resource, live)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return kubeerr.Explain(fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), cause(o.ctx, err)), op)
	}
	o.client.progress("applying %s %s", u.GetKind(), u.GetName())
	now, err := resource.Apply(o.ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return kubeerr.Explain(fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), cause(o.ctx, err)), op)
	}
	if live == nil || live.GetResourceVersion() != now.GetResourceVersion() {
		o.changedCRDs.Add(1)
	}
	return nil
}

// applied lets server-side apply take over the fields of an object that Helm created:
// those that are not sent any more would stay otherwise.
func applied(ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(manager), manager)
	if err != nil || patch == nil || !json.Valid(patch) {
		return live, err
	}
	return resource.Patch(ctx, live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
}
