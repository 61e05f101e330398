package webhookgate

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/webhook/match"
)

// knowledge is what is known of a cluster to predict which webhooks it calls.
type knowledge struct {
	session *cluster.Session
	matcher *match.Matcher

	mu     sync.Mutex
	labels map[string]map[string]string // of namespaces
	// unlabelled says that namespaces may not be listed.
	unlabelled bool
}

func newKnowledge(ctx context.Context, s *cluster.Session) (*knowledge, error) {
	k := &knowledge{session: s}
	lists, _, err := s.Cluster.Serves(ctx)
	if err != nil {
		return nil, err
	}
	var resources match.Resources
	if err := resources.AddDiscovery(lists...); err != nil {
		return nil, err
	}
	k.matcher = &match.Matcher{Cluster: match.Cluster{Labels: k.labelsOf, Resources: &resources}}
	return k, k.refresh(ctx)
}

// refresh reads the labels of namespaces anew. Those that may not be read are not known.
func (k *knowledge) refresh(ctx context.Context) error {
	list, err := k.session.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if apierrors.IsForbidden(err) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.unlabelled = true
			return nil
		}
		return fmt.Errorf("listing namespaces: %w", err)
	}
	all := make(map[string]map[string]string, len(list.Items))
	for _, ns := range list.Items {
		all[ns.Name] = ns.Labels
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.labels, k.unlabelled = all, false
	return nil
}

func (k *knowledge) labelsOf(namespace string) (map[string]string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.labels[namespace]
	return l, ok
}

// blind reports whether the labels of namespaces may not be read.
func (k *knowledge) blind() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unlabelled
}

// mapper finds resources as long as a context lasts.
type mapper struct {
	ctx     context.Context //nolint:containedctx // probe.Mapper has the methods of a meta.RESTMapper, which take none
	cluster *cluster.Cluster
}

func (k *knowledge) mapper(ctx context.Context) mapper { return mapper{ctx, k.session.Cluster} }

// RESTMapping finds the resource of a kind.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	version := ""
	if len(versions) > 0 {
		version = versions[0]
	}
	return m.cluster.Mapping(m.ctx, gk.WithVersion(version))
}

// KindFor finds the kind of a resource.
func (m mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	found, err := m.cluster.MappingFor(m.ctx, r.Resource+"."+r.Version+"."+r.Group)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if found.Resource != r { // it looks for other versions too
		return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: r}
	}
	return found.GroupVersionKind, nil
}
