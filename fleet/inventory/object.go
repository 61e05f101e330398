package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// api is a kind of objects that stand for clusters.
type api struct {
	kind string // of the source
	// what and object name the software and its kind, for people.
	what, object string
	resource     schema.GroupResource
	// versions are those that are understood, the best first.
	versions []string
	// read says what an object is. It sets what is particular to its kind.
	read func(o object, c *fleet.Cluster) (leftOut string, refused error)
}

// object is an object of a management cluster.
type object struct{ unstructured.Unstructured }

// text, flag and has read a field; a field of another type is as if it were not there.
func (o object) text(fields ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, fields...)
	return s
}

func (o object) flag(fields ...string) bool {
	b, _, _ := unstructured.NestedBool(o.Object, fields...)
	return b
}

func (o object) has(fields ...string) bool {
	v, found, _ := unstructured.NestedFieldNoCopy(o.Object, fields...)
	return found && v != nil
}

// objects finds clusters by the objects of one kind.
func (m *Management) objects(ctx context.Context, a api, s fleet.ObjectSource) (Found, error) {
	version, err := m.version(ctx, a, s.Cluster)
	if err != nil {
		return Found{}, err
	}
	resource := a.resource.WithVersion(version)
	var found Found
	err = m.pages(ctx, s, a.resource, func(ctx context.Context, c *client, o metav1.ListOptions) (runtime.Object, error) {
		return c.dynamic.Resource(resource).Namespace(s.Namespace).List(ctx, o)
	}, func(item runtime.Object) {
		if u, ok := item.(*unstructured.Unstructured); ok {
			found.add(a, s.Cluster, object{*u})
		}
	})
	if apierrors.IsNotFound(err) { // the group has other kinds
		return Found{}, &AbsentError{Cluster: called(s.Cluster), What: a.what, Resource: a.resource}
	}
	return found, err
}

// add takes in an object.
func (f *Found) add(a api, cluster string, o object) {
	c := fleet.Cluster{
		Name: o.GetNamespace() + "/" + o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels(), Annotations: shown(o.GetAnnotations()),
		Source: fleet.Source{Kind: a.kind, Cluster: cluster, Object: a.object + "/" + o.GetNamespace() + "/" + o.GetName()},
		Access: fleet.Access{Secret: &plan.KeyRef{Cluster: cluster, Namespace: o.GetNamespace(), Name: o.GetName() + "-kubeconfig", Key: defaultKey}},
	}
	leftOut, refused := "", error(nil)
	if o.GetDeletionTimestamp() != nil {
		leftOut = "it is being deleted"
	} else {
		leftOut, refused = a.read(o, &c)
	}
	switch {
	case leftOut != "":
		f.Notes = append(f.Notes, Note{c.Name, c.Source, leftOut})
	case refused != nil:
		f.Refused = append(f.Refused, Refused{c, refused})
	default:
		f.Clusters = append(f.Clusters, c)
	}
}

// shown leaves out of annotations what kubectl keeps of an object there: it is long, and
// changes with every edit.
func shown(annotations map[string]string) map[string]string {
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// version is the best version of a kind that a management cluster serves.
func (m *Management) version(ctx context.Context, a api, cluster string) (string, error) {
	var served metav1.APIGroup
	err := m.do(ctx, cluster, request{verb: "get", resource: a.resource}, func(ctx context.Context, c *client) error {
		return c.core.RESTClient().Get().AbsPath("/apis/" + a.resource.Group).Do(ctx).Into(&served)
	})
	if apierrors.IsNotFound(err) {
		return "", &AbsentError{Cluster: called(cluster), What: a.what, Resource: a.resource}
	}
	if err != nil {
		return "", err
	}
	var names []string
	for _, v := range served.Versions {
		names = append(names, v.Version)
	}
	for _, want := range a.versions {
		if slices.Contains(names, want) {
			return want, nil
		}
	}
	return "", fmt.Errorf("%s serves %s of %s, and kplan knows %s only", called(cluster), a.resource, strings.Join(names, ", "), strings.Join(a.versions, ", "))
}

// lister asks for one page of a list.
type lister func(context.Context, *client, metav1.ListOptions) (runtime.Object, error)

// pages lists objects page by page. When the list gets too old on the way it is asked for
// as a whole.
func (m *Management) pages(ctx context.Context, s fleet.ObjectSource, resource schema.GroupResource, list lister, each func(runtime.Object)) error {
	r := request{verb: "list", resource: resource, namespace: s.Namespace}
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (page runtime.Object, err error) {
		err = m.do(ctx, s.Cluster, r, func(ctx context.Context, c *client) (err error) {
			page, err = list(ctx, c, o)
			return err
		})
		return page, err
	})
	p.PageSize = pageSize
	all, _, err := p.List(ctx, metav1.ListOptions{LabelSelector: s.Selector})
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(item runtime.Object) error {
		each(item)
		return nil
	})
}
