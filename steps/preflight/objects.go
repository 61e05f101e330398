package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Objects reads the objects that a step names: those that it sends, those that it deletes,
// and those that it asks webhooks with. namespace is that of objects for which nobody names
// one; chart is that of a helm step.
func Objects(ctx context.Context, s plan.Step, namespace string, from *source.Store, chart *charts.Chart, has charts.Capabilities) ([]manifest.Object, error) {
	switch {
	case s.Webhook != nil:
		files := slices.Clone(s.Webhook.Files)
		if canary := s.Webhook.Canary; canary != nil {
			files = slices.Concat(files, canary.Files())
		}
		if len(files) == 0 {
			return nil, nil
		}
		return manifest.Objects(ctx, plan.Step{Dir: s.Dir, Apply: &plan.Apply{Files: files, Namespace: cmp.Or(s.Webhook.Namespace, namespace)}}, from)
	case s.Delete != nil && s.Delete.Release == "" && s.Delete.Resource == "":
		objects, err := manifest.Read(ctx, s, from)
		for _, o := range objects {
			if o.GetNamespace() == "" {
				o.SetNamespace(cmp.Or(s.Delete.Namespace, namespace))
			}
		}
		return objects, err
	case s.Apply != nil:
		spec := *s.Apply
		spec.Namespace = cmp.Or(spec.Namespace, namespace)
		s.Apply = &spec
	}
	return manifest.Of(ctx, s, from, chart, has)
}

// resources knows the resources of a cluster, and those of the plan's objects.
type resources struct {
	of      func(schema.GroupVersionKind) (schema.GroupVersionResource, bool)
	served  []*metav1.APIResourceList
	objects []*unstructured.Unstructured
}

// exists reports whether the cluster has an object; it has those of which that cannot be
// told. Each is asked for once.
func (o *one) exists(ctx context.Context, u *unstructured.Unstructured) bool {
	id := u.GroupVersionKind().GroupKind().String() + " " + u.GetNamespace() + "/" + u.GetName()
	if there, known := o.there.Load(id); known {
		return there.(bool)
	}
	mapping, err := o.session.Cluster.Mapping(ctx, u.GroupVersionKind())
	if err == nil {
		_, err = o.session.Resource(mapping, u.GetNamespace()).Get(ctx, u.GetName(), metav1.GetOptions{})
	}
	there := !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err)
	if ctx.Err() == nil {
		o.there.Store(id, there)
	}
	return there
}

// some are the first of several texts.
func some(texts []string) string {
	const most = 4
	text := strings.Join(texts[:min(len(texts), most)], ", ")
	if more := len(texts) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func hintOf(err error) string { return runner.HintOf(err) }
