package charts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
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
	rel, err := c.DryRelease(ctx, has, !c.Spec.SkipCRDs)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(rel.Manifest)
	for _, h := range rel.Hooks {
		if Installs(h) {
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
func (c *Chart) DryRelease(ctx context.Context, has Capabilities, crds bool) (*release.Release, error) {
	values, err := c.Values()
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
	i := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	i.ReleaseName, i.Namespace = c.ReleaseName, c.Namespace
	i.DryRun, i.ClientOnly, i.Replace = true, true, true
	i.IncludeCRDs = crds
	i.APIVersions = has.APIs
	if i.KubeVersion, err = chartutil.ParseKubeVersion(cmp.Or(has.Version, libraries)); err != nil {
		return nil, fmt.Errorf("version of the cluster: %w", err)
	}
	rel, err := i.RunWithContext(ctx, ch, values)
	if err != nil {
		return nil, fmt.Errorf("rendering chart %s: %w", Public(c.Spec.Chart), err)
	}
	return rel, nil
}

// Installs reports whether a hook is run by an install.
func Installs(h *release.Hook) bool {
	return slices.ContainsFunc(h.Events, func(e release.HookEvent) bool {
		return e == release.HookPreInstall || e == release.HookPostInstall
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
