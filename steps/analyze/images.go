package analyze

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Image is a container image that objects of a plan name.
type Image struct {
	// Name is as the objects have it.
	Name string
	// Steps are the names of the steps whose objects have it.
	Steps []string
}

// Images finds the container images that the objects of a plan's steps name: those of
// pods, in all kinds that make some, those that custom resources have in a field
// named image, and those that the charts' own annotations list. What an operator runs by itself
// is not among them. The error says which steps could not be looked at.
func Images(ctx context.Context, p *plan.Plan, from *source.Store) ([]Image, error) {
	found, errs := make([][]string, len(p.Steps)), make([]error, len(p.Steps))
	var group errgroup.Group // its goroutines end with what they read, or the context
	group.SetLimit(atOnce)
	for i, s := range p.Steps {
		if s.Skip != "" || s.Helm == nil && s.Apply == nil {
			continue
		}
		group.Go(func() error {
			objects, err := manifest.Planned(ctx, s, from)
			if err != nil {
				errs[i] = fmt.Errorf("step %q: %w", s.Name, err)
			}
			for _, o := range objects {
				found[i] = append(found[i], imagesOf(o.Unstructured)...)
			}
			found[i] = append(found[i], announced(ctx, s, from)...)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	steps := map[string][]string{}
	for i, names := range found {
		for _, name := range names {
			if !slices.Contains(steps[name], p.Steps[i].Name) {
				steps[name] = append(steps[name], p.Steps[i].Name)
			}
		}
	}
	var all []Image
	for name, of := range steps {
		all = append(all, Image{name, of})
	}
	slices.SortFunc(all, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// podSpecs are where the kinds of Kubernetes have the spec of a pod.
var podSpecs = map[string][]string{
	"Pod": {"spec"}, "PodTemplate": {"template", "spec"},
	"Deployment": {"spec", "template", "spec"}, "ReplicaSet": {"spec", "template", "spec"}, "ReplicationController": {"spec", "template", "spec"},
	"DaemonSet": {"spec", "template", "spec"}, "StatefulSet": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"},
	"CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
}

// imagesOf are the images that an object names.
func imagesOf(o *unstructured.Unstructured) []string {
	group := o.GroupVersionKind().Group
	if group == "" || group == "apps" || group == "batch" {
		spec, _, _ := unstructured.NestedMap(o.Object, podSpecs[o.GetKind()]...)
		if podSpecs[o.GetKind()] == nil {
			return nil
		}
		return imagesOfPod(spec)
	}
	if strings.HasSuffix(group, ".k8s.io") { // such as a CRD, whose schema tells of images
		return nil
	}
	return scan(o.Object["spec"])
}

// imagesOfPod are those of a pod's containers and volumes.
func imagesOfPod(spec map[string]any) []string {
	var names []string
	add := func(v any) {
		if name, ok := v.(string); ok && name != "" {
			names = append(names, name)
		}
	}
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		list, _ := spec[field].([]any)
		for _, c := range list {
			if container, ok := c.(map[string]any); ok {
				add(container["image"])
			}
		}
	}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if image, ok := volume["image"].(map[string]any); ok {
			add(image["reference"])
		}
	}
	return names
}

// scan finds texts in fields named image that look like one: with a path, or a tag.
func scan(v any) []string {
	var names []string
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			if name, ok := field.(string); ok && key == "image" && strings.ContainsAny(name, "/:") && !strings.ContainsAny(name, " {$") {
				names = append(names, name)
				continue
			}
			names = append(names, scan(field)...)
		}
	case []any:
		for _, item := range v {
			names = append(names, scan(item)...)
		}
	}
	return names
}

// announced are the images that a chart's annotations list; none when it cannot be
// read, which its rendering says.
func announced(ctx context.Context, s plan.Step, from *source.Store) []string {
	if s.Helm == nil {
		return nil
	}
	chart, err := charts.New(s, metav1.NamespaceDefault, from)
	if err != nil {
		return nil
	}
	names, err := chart.Images(ctx)
	if err != nil {
		return nil
	}
	return names
}
