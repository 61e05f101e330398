package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// Installed is a release that a cluster has, at its last revision. Its texts are
// as the cluster has them.
type Installed struct {
	Name, Namespace string
	// Chart and Version are those of the chart; where it came from is not kept.
	Chart, Version string
	// Status is as helm list shows it, such as deployed.
	Status string
	// Values are those that were given for the release. They may hold secrets.
	Values map[string]any
	// Sources are addresses that the chart tells of itself.
	Sources []string
	// Objects are those of its manifest, its install hooks and its crds folder.
	Objects []*unstructured.Unstructured
}

// List reads the releases of a namespace, of all with "", by namespace and name.
// The error joins why manifests cannot be read in whole; the releases are
// returned all the same.
func List(ctx context.Context, client kubernetes.Interface, namespace string) ([]Installed, error) {
	const last = "owner=helm,status notin (superseded,uninstalled,uninstalling)" // revisions only
	all, problems, err := engine.Secrets{Client: client.CoreV1().Secrets(namespace)}.List(ctx, last)
	if err != nil {
		return nil, kubeerr.Explain(err, kubeerr.Op{Verb: "list", Resource: corev1.Resource("secrets"), Namespace: namespace})
	}
	slices.SortFunc(all, func(a, b *engine.Release) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(b.Version, a.Version))
	})
	all = slices.CompactFunc(all, func(a, b *engine.Release) bool { return a.Namespace == b.Namespace && a.Name == b.Name })
	var out []Installed
	for _, r := range all {
		i, err := installed(r)
		if err != nil {
			problems = append(problems, fmt.Errorf("release %s/%s: %w", r.Namespace, r.Name, err))
		}
		out = append(out, i)
	}
	return out, errors.Join(problems...)
}

// installed leaves out what Helm cannot know to be there: a release read from a
// cluster may lack any part.
func installed(r *engine.Release) (Installed, error) {
	i := Installed{Name: r.Name, Namespace: r.Namespace, Values: r.Config}
	if r.Info != nil {
		i.Status = r.Info.Status.String()
	}
	manifests := []string{r.Manifest}
	for _, h := range r.Hooks {
		if charts.Installs(h) {
			manifests = append(manifests, h.Manifest)
		}
	}
	if r.Chart != nil {
		if m := r.Chart.Metadata; m != nil {
			i.Chart, i.Version, i.Sources = m.Name, m.Version, m.Sources
			if m.Home != "" {
				i.Sources = append([]string{m.Home}, i.Sources...)
			}
		}
		for _, crd := range r.Chart.CRDObjects() {
			manifests = append(manifests, string(crd.File.Data))
		}
	}
	var problems []error
	for _, m := range manifests {
		objects, err := charts.Decode(m)
		problems = append(problems, err)
		i.Objects = append(i.Objects, objects...)
	}
	for _, o := range i.Objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(r.Namespace)
		}
	}
	return i, errors.Join(problems...)
}
