package webhookgate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	probing "github.com/kplan-dev/kplan/webhook/probe"
)

// unserved is how long a webhook's kinds may be unknown to the API server until
// nothing is left to be proven: nobody can create such an object then.
const unserved = 10 * time.Second

// probe is a dry run that a webhook has to answer.
type probe struct {
	entry   webhook.Entry
	mapping *meta.RESTMapping
	object  *unstructured.Unstructured
}

// unprovable says why no dry run can show that a webhook answers.
type unprovable struct{ reason string }

func (e *unprovable) Error() string { return e.reason }

// newProbe makes up an object that the webhook is called for.
func newProbe(ctx context.Context, s *kube.Session, e webhook.Entry) (*probe, error) {
	switch {
	case e.FailurePolicy == admissionv1.Ignore:
		return nil, &unprovable{"failurePolicy Ignore lets requests pass whether it answers or not"}
	case e.SideEffects != admissionv1.SideEffectClassNone && e.SideEffects != admissionv1.SideEffectClassNoneOnDryRun:
		return nil, &unprovable{"its side effects forbid a dry run"}
	case len(e.MatchConditions) > 0:
		return nil, &unprovable{"its matchConditions may leave a made-up object out"}
	}
	labels, err := probing.Labels(e.ObjectSelector)
	if err != nil {
		return nil, &unprovable{err.Error()}
	}
	targets := probing.Targets(e)
	if len(targets) == 0 {
		return nil, &unprovable{"it is called for no creation of a kind that can be made up"}
	}
	mapping, err := served(ctx, s, targets)
	if err != nil {
		return nil, err
	}
	p := &probe{entry: e, mapping: mapping}
	if p.object, err = sample(ctx, s, mapping, mapping.Resource); err != nil {
		return nil, err
	}
	p.object.SetLabels(labels)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		ns, err := namespace(ctx, s, e)
		if err != nil {
			return nil, err
		}
		p.object.SetNamespace(ns)
	}
	return p, nil
}

// served finds the first resource that the API server serves. An operator may
// bring the definitions of its kinds a moment after its webhooks.
func served(ctx context.Context, s *kube.Session, targets []schema.GroupVersionResource) (*meta.RESTMapping, error) {
	for began := time.Now(); ; {
		for _, t := range targets {
			m, err := s.Cluster.MappingFor(ctx, t.Resource+"."+t.Version+"."+t.Group)
			if err == nil && m.Resource == t {
				return m, nil
			}
		}
		if time.Since(began) > unserved {
			return nil, &unprovable{"no kind that it is called for is served: " + targets[0].GroupResource().String()}
		}
		if err := pause(ctx, look); err != nil {
			return nil, err
		}
	}
}

// sample is an object with the required fields of its kind.
func sample(ctx context.Context, s *kube.Session, m *meta.RESTMapping, r schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	crd := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	def, err := s.Dynamic.Resource(crd).Get(ctx, r.Resource+"."+r.Group, metav1.GetOptions{})
	switch {
	case err == nil:
		if o, ok := probing.Sample(schemaOf(def, r.Version)).(map[string]any); ok {
			u.Object = o
		}
	case !apierrors.IsNotFound(err):
		return nil, kube.Explain(ended(ctx, fmt.Errorf("reading the kind's definition: %w", err)), kube.Op{
			Verb: "get", Resource: crd.GroupResource(),
		})
	}
	delete(u.Object, "metadata")
	u.SetGroupVersionKind(m.GroupVersionKind)
	u.SetGenerateName("kplan-probe-")
	return u, nil
}

// schemaOf is the schema of one version of a CustomResourceDefinition.
func schemaOf(crd *unstructured.Unstructured, version string) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if m["name"] == version {
			s, _, _ := unstructured.NestedMap(m, "schema", "openAPIV3Schema")
			return s
		}
	}
	return map[string]any{"type": "object"}
}

// namespace picks one in which the webhook is called: that of its Service if it
// is, else any other.
func namespace(ctx context.Context, s *kube.Session, e webhook.Entry) (string, error) {
	sel, err := metav1.LabelSelectorAsSelector(orEmpty(e.NamespaceSelector))
	if err != nil {
		return "", &unprovable{err.Error()}
	}
	list, err := s.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: sel.String()})
	if err != nil {
		return "", kube.Explain(ended(ctx, fmt.Errorf("listing namespaces: %w", err)), kube.Op{
			Verb: "list", Resource: schema.GroupResource{Resource: "namespaces"},
		})
	}
	name := ""
	for _, ns := range list.Items {
		if ns.DeletionTimestamp != nil {
			continue
		}
		if e.Client.Service != nil && ns.Name == e.Client.Service.Namespace {
			return ns.Name, nil
		}
		if name == "" {
			name = ns.Name
		}
	}
	if name == "" {
		return "", &unprovable{"no namespace matches its namespaceSelector " + sel.String()}
	}
	return name, nil
}

// orEmpty makes a selector that is not given one that selects everything.
func orEmpty(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}

// send creates the object by dry run. A nil error and an empty text mean that
// the webhook answered; the text says why its answer could not be provoked.
func (p *probe) send(ctx context.Context, s *kube.Session) (unproven string, err error) {
	object := p.object.DeepCopy()
	object.Object = maps.Clone(object.Object)
	gvr := p.mapping.Resource
	_, err = s.Dynamic.Resource(gvr).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: "kplan",
	})
	if err == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", timedOut(context.Cause(ctx), p.entry.String()+" to admit", "")
	}
	fault := faultOf(err)
	switch {
	case fault.Class == webhook.Denied && fault.Webhook == p.entry.Name:
		return "", nil // an answer, whatever it is
	case fault.Class == webhook.Denied:
		return fmt.Sprintf("webhook %q denies the made-up object before it", fault.Webhook), nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		// Mutating webhooks are called before the object is validated,
		// validating ones after (k8s.io/apiserver pkg/endpoints/handlers/create.go).
		if p.entry.Kind == webhook.Mutating {
			return "", nil
		}
		return "the made-up object is not valid: " + kube.Plain(strings.TrimSpace(err.Error())), nil
	}
	return "", kube.Explain(err, kube.Op{Verb: "create", Resource: gvr.GroupResource(), Namespace: object.GetNamespace()})
}

// faultOf reads what an error of a client says about a webhook.
func faultOf(err error) webhook.Fault {
	if held := (*hold.Error)(nil); errors.As(err, &held) {
		return held.Fault
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		return webhook.Classify(&s)
	}
	return webhook.Fault{Class: webhook.None}
}

// isFault tells whether err says that a webhook could not answer.
func isFault(err error) bool { return faultOf(err).Waitable() }
