package charts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// Capabilities are what a chart may ask about a cluster: its version and API
// versions. The zero value is a cluster of the version of kplan's own
// Kubernetes libraries, with their kinds.
type Capabilities struct {
	// Version is such as "v1.36.3".
	Version string
	// APIs are versions and kinds, such as "apps/v1" and "apps/v1/Deployment",
	// besides those that Kubernetes has.
	APIs []string
}

// libraries is the Kubernetes version of kplan's own libraries (k8s.io v0.37).
const libraries = "v1.37.0"

// Render returns the objects that an install of the chart would send: those of
// its crds folder, its templates and its install hooks. No cluster is asked, so
// templates that look up objects find none.
func (c *Chart) Render(ctx context.Context, has Capabilities) ([]*unstructured.Unstructured, error) {
	rel, err := c.DryRelease(ctx, has, c.Spec.CRDPolicy() != plan.SkipCRDs)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(rel.Manifest)
	for _, h := range rel.Hooks {
		if Installs(h) && !c.Spec.DisableHooks {
			more, e := Decode(h.Manifest)
			objects, err = append(objects, more...), errors.Join(err, e)
		}
	}
	c.Place(objects)
	return objects, err
}

// Place gives objects that name no namespace that of the release.
func (c *Chart) Place(objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(c.Namespace)
		}
	}
}

// DryRelease makes the release of a first install; crds says whether the crds folder
// is part of its manifest.
func (c *Chart) DryRelease(ctx context.Context, has Capabilities, crds bool) (*engine.Release, error) {
	values, err := c.Values(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // reading from disk and rendering know of no context
		return nil, context.Cause(ctx)
	}
	ch, err := c.Source.Load(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	has = c.Told(has)
	rel, err := c.Engine().Render(ctx, ch, values, engine.Render{
		Name: c.ReleaseName, Namespace: c.Namespace, IncludeCRDs: crds,
		KubeVersion: cmp.Or(has.Version, libraries), APIVersions: has.APIs,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering chart %s: %w", source.Public(c.Spec.Chart), err)
	}
	return rel, nil
}

// Told are the capabilities of a cluster as the step lets the chart see them.
func (c *Chart) Told(has Capabilities) Capabilities {
	if v := c.Spec.KubeVersion; v != "" {
		has.Version = "v" + strings.TrimPrefix(v, "v")
	}
	has.APIs = slices.Concat(has.APIs, c.Spec.APIVersions)
	return has
}

// Brings are the API versions and kinds of the CustomResourceDefinitions in a chart's
// crds folder.
func Brings(ch *engine.Chart) []string {
	var apis []string
	for _, crd := range ch.CRDObjects() {
		objects, _ := Decode(string(crd.File.Data)) // who sends them says what is wrong
		for _, o := range objects {
			for _, kind := range kinds.DefinitionOf(o).Kinds() {
				version := kind.GroupVersion().String()
				apis = append(apis, version, version+"/"+kind.Kind)
			}
		}
	}
	return apis
}

// Installs reports whether a hook is run by an install.
func Installs(h *engine.Hook) bool {
	return slices.ContainsFunc(h.Events, func(e engine.HookEvent) bool {
		return e == engine.HookPreInstall || e == engine.HookPostInstall
	})
}

// Decode reads the objects of a rendered manifest.
func Decode(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := documents.Decode(&u.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return objects, fmt.Errorf("reading what the chart renders: %w", err)
		case u.GetKind() == "List":
			_ = u.EachListItem(func(o runtime.Object) error {
				objects = append(objects, o.(*unstructured.Unstructured))
				return nil
			})
		case len(u.Object) > 0:
			objects = append(objects, u)
		}
	}
}

// CapabilitiesOf is what charts may ask about a cluster of a version that serves
// some kinds.
func CapabilitiesOf(version string, served []*metav1.APIResourceList) Capabilities {
	has := Capabilities{Version: version}
	for _, l := range served {
		has.APIs = append(has.APIs, l.GroupVersion)
		for _, r := range l.APIResources {
			has.APIs = append(has.APIs, l.GroupVersion+"/"+r.Kind)
		}
	}
	return has
}
