package helm

import (
	"fmt"

	"golang.org/x/sync/errgroup"
	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// lookups is how many objects are looked up at the same time.
const lookups = 16

// gone are those of a release's objects that the cluster does not have, in the
// manifest's order. Jobs that remove themselves once they are done are never
// missed.
func (o *operation) gone(resources helmkube.ResourceList) ([]string, error) {
	var group errgroup.Group
	group.SetLimit(lookups)
	absent, errs := make([]bool, len(resources)), make([]error, len(resources))
	for i, info := range resources {
		if removesItself(info) {
			continue
		}
		group.Go(func() error {
			// The session's transport ends the request with the attempt.
			_, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
			switch {
			case apierrors.IsNotFound(err):
				absent[i] = true
			case err != nil:
				errs[i] = fmt.Errorf("reading %s: %w", objectOf(info), cause(o.ctx, err))
			}
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	var names []string
	for i, info := range resources {
		if errs[i] != nil {
			return nil, kubeerr.Explain(errs[i], kubeerr.Op{Verb: "get", Resource: info.Mapping.Resource.GroupResource(), Namespace: info.Namespace})
		}
		if absent[i] {
			names = append(names, objectOf(info))
		}
	}
	return names, nil
}

func objectOf(info *resource.Info) string {
	t := watch.Target{Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name}
	return t.Object()
}

func removesItself(info *resource.Info) bool {
	if info.Mapping.GroupVersionKind.GroupKind() != job {
		return false
	}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
	if err != nil {
		return false
	}
	_, found, _ := unstructured.NestedFieldNoCopy(o, "spec", "ttlSecondsAfterFinished")
	return found
}
