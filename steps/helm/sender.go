package helm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// sender sends the objects of a release in Helm's order, each with requests that have
// a context, which Helm's own have not.
type sender struct {
	session *cluster.Session
	// ahead is the session's transport for the clients of single objects.
	ahead *lookahead
	// kinds are those that Helm knows, in the order in which it sends them.
	kinds []string
	// order is in which objects are sent, and matcher tells which of them webhooks
	// judge, by the labels of namespaces.
	order   *sequence.Sequence
	matcher match.Matcher
	// revision is what is being sent.
	revision revision
	// ignoreHooks says that hooks are created and not waited for.
	ignoreHooks bool
}

// send sends a batch of items; see package sequence.
func (s *sender) send(batch ...*sequence.Item) {
	for _, it := range batch {
		s.revision.sends(it)
	}
	s.order.Send(batch...)
}

// gather waits for objects that were sent, but for those that are held for what
// the release may still bring; hooks wait for themselves alone.
func (s *sender) gather(resources engine.ResourceList) error {
	hooks := slices.ContainsFunc(resources, isHook)
	return s.order.Gather(func(it *sequence.Item, f webhook.Fault) bool {
		if hooks && !among(it, resources) {
			return true
		}
		return it.Free(f) && s.revision.mayBring(f, s.revision.of(it))
	})
}

// byKind parts items where the kind changes.
func byKind(items []*sequence.Item) [][]*sequence.Item {
	var out [][]*sequence.Item
	for i, it := range items {
		if i == 0 || it.Kind.Kind != items[i-1].Kind.Kind {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], it)
	}
	return out
}

// apart parts a batch so that nothing is twice in one: of two copies of an object in a
// manifest the later one wins, as with Helm.
func apart(batch []*sequence.Item) [][]*sequence.Item {
	type object struct{ namespace, name string }
	var out [][]*sequence.Item
	times := map[object]int{}
	for _, it := range batch {
		o := object{it.Namespace, it.Name}
		if n := times[o]; n == len(out) {
			out = append(out, nil)
		}
		out[times[o]] = append(out[times[o]], it)
		times[o]++
	}
	return out
}

// items are what is to be sent of objects, each with a copy of its object whose
// client tells the sequence when it is held.
func (s *sender) items(resources engine.ResourceList, send func(info, own *resource.Info) error) []*sequence.Item {
	var items []*sequence.Item
	for _, info := range resources {
		it := &sequence.Item{
			Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name,
			Free:   func(f webhook.Fault) bool { return s.free(info, f) },
			Judged: func(ctx context.Context, f webhook.Fault) bool { return s.judged(ctx, info, f) },
			Send: func(ctx context.Context) error {
				own, err := s.over(ctx, info)
				if err != nil {
					return err
				}
				defer s.ahead.wrote(info)
				return send(info, own)
			},
		}
		items = append(items, it)
	}
	return items
}

// over copies an object with a client whose requests have a context: Helm's
// own have none.
func (s *sender) over(ctx context.Context, info *resource.Info) (*resource.Info, error) {
	client, err := s.clientOf(ctx, info.Mapping.GroupVersionKind.GroupVersion())
	if err != nil {
		return nil, err
	}
	own := *info
	own.Client = client
	return &own, nil
}

// clientOf makes a client for the objects of a version.
func (s *sender) clientOf(ctx context.Context, version schema.GroupVersion) (resource.RESTClient, error) {
	config := rest.CopyConfig(s.session.Config)
	config.ContentConfig = resource.UnstructuredPlusDefaultContentConfig()
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: &within{ctx, s.ahead}})
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", version, err)
	}
	return client, nil
}

// within sends requests that have no context of their own with one.
type within struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *within) RoundTrip(req *http.Request) (*http.Response, error) {
	return w.next.RoundTrip(req.WithContext(w.ctx))
}

// single takes the one error out of those that Helm counts.
func single(err error) error {
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) == 1 {
		return many.WrappedErrors()[0]
	}
	return err
}

// among reports whether an item is one of resources.
func among(it *sequence.Item, resources engine.ResourceList) bool {
	return slices.ContainsFunc(resources, func(info *resource.Info) bool {
		return info.Mapping.GroupVersionKind == it.Kind && info.Namespace == it.Namespace && info.Name == it.Name
	})
}

// free reports whether what comes after an object may be sent while the object is
// held. Hooks keep the order that their weights say, and kinds that others refer to
// Helm's, unless the webhook may wait for what comes after.
func (s *sender) free(info *resource.Info, f webhook.Fault) bool {
	gk := info.Mapping.GroupVersionKind.GroupKind()
	switch hook := isHook(info); {
	case gk.Group == "" && gk.Kind == "Namespace", gk.Group == "apiextensions.k8s.io":
		return false // nothing in it, or of it, can be sent without it
	case hook && runsToItsEnd(gk) && !s.ignoreHooks:
		return false // Helm waits for its end next
	case hook, s.basic(gk.Kind):
		return s.revision.mayBring(f, s.revision.identity(gk, info.Namespace, info.Name))
	}
	return true
}

// basic reports whether objects of a kind are what workloads run on: accounts,
// rights, configuration, storage.
func (s *sender) basic(kind string) bool {
	i := slices.Index(s.kinds, kind)
	return i >= 0 && i < slices.Index(s.kinds, "Service")
}

func isHook(info *resource.Info) bool {
	u, ok := info.Object.(*unstructured.Unstructured)
	return ok && u.GetAnnotations()[engine.HookAnnotation] != ""
}

// judged reports whether a webhook that is called where that of a fault is
// certainly judges an object.
func (s *sender) judged(ctx context.Context, info *resource.Info, f webhook.Fault) bool {
	if f.Kind == webhook.Server || f.Kind == webhook.Conversion {
		return false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
	if err != nil {
		return false
	}
	request := match.Request{
		Resource: info.Mapping.Resource, Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name,
		Object: &unstructured.Unstructured{Object: content}, Planned: true,
	}
	for _, e := range s.session.Cluster.Webhooks(ctx, f) {
		for _, request.Operation = range []admissionv1.OperationType{admissionv1.Create, admissionv1.Update} {
			if s.matcher.Match(ctx, e, request).Outcome == match.Calls {
				return true
			}
		}
	}
	return false
}
