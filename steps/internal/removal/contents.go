package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// Contents reads the objects of a namespace, their metadata alone, but for what
// Kubernetes itself puts there: events, leases, endpoints, the default account. It fails
// when some of them cannot be known: a kind may not be listed, or an API service does
// not tell its kinds.
func Contents(ctx context.Context, s *cluster.Session, namespace string) ([]Object, error) {
	mappings, err := namespaced(ctx, s)
	if err != nil {
		return nil, err
	}
	md, err := metadata.NewForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	var (
		mu  sync.Mutex
		all []Object
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, m := range mappings {
		group.Go(func() error {
			list, err := md.Resource(m.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			switch {
			case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
				return nil
			case err != nil:
				return kubeerr.Explain(cause(ctx, err), kubeerr.Op{Verb: "list", Resource: m.Resource.GroupResource(), Namespace: namespace})
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range list.Items {
				if o, ok := bare(&list.Items[i], m); ok && !madeByKubernetes(o) {
					all = append(all, o)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.ID(), b.ID()) })
	return all, nil
}

// bare makes an object of metadata.
func bare(p *metav1.PartialObjectMetadata, m *meta.RESTMapping) (Object, bool) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	u := &unstructured.Unstructured{Object: fields}
	if err != nil {
		return Object{}, false
	}
	u.SetGroupVersionKind(m.GroupVersionKind)
	return Object{Unstructured: u, Mapping: m}, true
}

// incidental are the kinds whose objects are there because of others.
var incidental = map[schema.GroupKind]bool{
	{Kind: "Event"}: true, {Group: "events.k8s.io", Kind: "Event"}: true, {Group: "coordination.k8s.io", Kind: "Lease"}: true,
	{Kind: "Endpoints"}: true, {Group: "discovery.k8s.io", Kind: "EndpointSlice"}: true, {Group: "metrics.k8s.io", Kind: "PodMetrics"}: true,
	{Group: "apps", Kind: "ControllerRevision"}: true,
}

// madeByKubernetes reports whether an object is there because its namespace is.
func madeByKubernetes(o Object) bool {
	switch o.GroupVersionKind().GroupKind().String() {
	case "ServiceAccount":
		return o.GetName() == "default"
	case "ConfigMap":
		return o.GetName() == "kube-root-ca.crt"
	case "Secret":
		return o.GetAnnotations()["kubernetes.io/service-account.name"] == "default"
	}
	return false
}

// namespaced are the resources with namespaces whose objects can be listed and
// deleted, each in the version that the API server prefers.
func namespaced(ctx context.Context, s *cluster.Session) ([]*meta.RESTMapping, error) {
	lists, err := s.Cluster.ServesAll(ctx)
	if err != nil {
		return nil, kubeerr.Explain(fmt.Errorf("finding out what can be in a namespace: %w", cause(ctx, err)), kubeerr.Op{})
	}
	var all []*meta.RESTMapping
	seen := map[schema.GroupResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			resource := gv.WithResource(r.Name)
			if !r.Namespaced || strings.Contains(r.Name, "/") || incidental[gv.WithKind(r.Kind).GroupKind()] || seen[resource.GroupResource()] ||
				!slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			seen[resource.GroupResource()] = true
			all = append(all, &meta.RESTMapping{Resource: resource, GroupVersionKind: gv.WithKind(r.Kind), Scope: meta.RESTScopeNamespace})
		}
	}
	return all, nil
}

// Instances reads the custom resources of a definition, in all namespaces.
func Instances(ctx context.Context, s *cluster.Session, crd *unstructured.Unstructured) ([]Object, error) {
	m, err := Mapping(ctx, s, kinds.DefinitionOf(crd).WithVersion(""))
	if err != nil || m == nil {
		return nil, err
	}
	return List(ctx, s, m, "", "")
}

func watchID(u *unstructured.Unstructured) string { return watch.TargetOf(u).Object() }
