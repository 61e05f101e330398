package match_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// call is what the API server asked of a webhook.
type call struct {
	webhook  string // the path of its URL
	resource schema.GroupVersionResource
}

// recorder is a webhook server that allows everything, and lets webhooks whose
// path ends in "/patch" change the object. It remembers its calls.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(func() {
		r.CloseClientConnections() // the API server keeps its connections
		r.Close()
	})
	return r
}

// ServeHTTP answers an AdmissionReview.
func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.calls = append(r.calls, call{webhook: req.URL.Path, resource: schema.GroupVersionResource(review.Request.Resource)})
	r.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if strings.HasSuffix(req.URL.Path, "/patch") && len(review.Request.Object.Raw) > 0 {
		review.Response.PatchType, review.Response.Patch = new(admissionv1.PatchTypeJSONPatch), annotate(review.Request.Object.Raw, req.URL.Path)
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// annotate makes a patch that adds an annotation, the same one each time.
func annotate(object []byte, path string) []byte {
	var meta metav1.PartialObjectMetadata
	_ = json.Unmarshal(object, &meta)
	key := strings.ReplaceAll(strings.Trim(path, "/"), "/", ".")
	if meta.Annotations == nil {
		return fmt.Appendf(nil, `[{"op": "add", "path": "/metadata/annotations", "value": {%q: "seen"}}]`, key)
	}
	return fmt.Appendf(nil, `[{"op": "add", "path": "/metadata/annotations/%s", "value": "seen"}]`, key)
}

// take gives the calls since it was last called.
func (r *recorder) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// client is how the API server reaches a webhook of the recorder.
func (r *recorder) client(path string) registrationv1.WebhookClientConfig {
	url := r.URL + path
	return registrationv1.WebhookClientConfig{
		URL:      &url,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}),
	}
}

// The environments of namespaces, which are their labels.
var environments = []string{"prod", "dev", "none"}

// ground is the part of a shared cluster that the test plays on. All webhooks
// are bound to it: they name its API group only, or have a match condition
// that is true for objects whose name begins with prefix only.
type ground struct {
	id, group, prefix string
	clients           kubernetes.Interface
	dynamic           dynamic.Interface
	recorder          *recorder
	cluster           match.Cluster
	user              *authenticationv1.UserInfo
	// stored are the objects that exist, by URL.
	stored     map[string]*unstructured.Unstructured
	generation int
}

// newGround makes namespaces, two kinds of custom resources and one object of
// each kind in each place.
func newGround(t *testing.T) *ground {
	t.Helper()
	lab := labtest.Own(t, "test-match") // its webhooks would meet the objects of other tests
	id := lab.Namespace(t)
	config := lab.Config(t)
	dyn, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	g := &ground{
		id: id, group: id + ".match.kplan.dev", prefix: id + "-o-", clients: lab.Clientset(t), dynamic: dyn,
		recorder: newRecorder(t), stored: map[string]*unstructured.Unstructured{},
	}
	review, err := g.clients.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	g.user = &review.Status.UserInfo
	crds := []*unstructured.Unstructured{
		object(t, fmt.Sprintf(crdTemplate, "gadgets", g.group, "Gadget", "Namespaced")),
		object(t, fmt.Sprintf(crdTemplate, "orbs", g.group, "Orb", "Cluster")),
	}
	for _, crd := range crds {
		g.create(t, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", crd)
	}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	for _, env := range environments {
		ns := object(t, `{apiVersion: v1, kind: Namespace, metadata: {labels: {tier: web}}}`)
		ns.SetName(g.prefix + env)
		if env != "none" {
			ns.SetLabels(map[string]string{"env": env})
		}
		g.create(t, namespaces, "", ns)
	}
	for _, k := range g.kinds() {
		if k.resource != namespaces && k.resource.Version == "v1" && k.subresource == "" {
			for _, ns := range k.places(g) {
				g.create(t, k.resource, ns, k.object(g, g.prefix+"old", ns, map[string]string{"tier": "web"}))
			}
		}
	}
	g.learn(t, crds)
	return g
}

const crdTemplate = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: %[4]s
  names: {plural: %[1]s, singular: the%[1]s, kind: %[3]s}
  versions:
  - name: v2
    served: true
    storage: false
    schema: &schema {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}}
  - name: v1
    served: true
    storage: true
    schema: *schema
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
  - {name: v0, served: false, storage: false, schema: *schema, subresources: {status: {}}}
`

// create makes an object, which is deleted at the end. It tries again while
// the API server does not serve the resource yet.
func (g *ground) create(t *testing.T, resource schema.GroupVersionResource, ns string, u *unstructured.Unstructured) {
	t.Helper()
	api := g.dynamic.Resource(resource).Namespace(ns)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, err := api.Create(context.Background(), u, metav1.CreateOptions{})
		require.NoError(t, err)
	}, time.Minute, 20*time.Millisecond)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("an object of a test is left behind"))
		defer cancel()
		_ = api.Delete(ctx, u.GetName(), metav1.DeleteOptions{})
	})
}

// learn tells the matcher what there is, and reads the objects that exist.
func (g *ground) learn(t *testing.T, crds []*unstructured.Unstructured) {
	t.Helper()
	resources := &match.Resources{}
	_, lists, err := g.clients.Discovery().ServerGroupsAndResources()
	if _, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); !partly { // another test's group may be half gone
		require.NoError(t, err)
	}
	require.NoError(t, resources.AddDiscovery(lists...))
	for _, crd := range crds {
		require.NoError(t, resources.AddCRD(crd))
	}
	g.cluster = match.Cluster{Resources: resources, Authorizer: administrator, Labels: func(name string) (map[string]string, bool) {
		env, ours := strings.CutPrefix(name, g.prefix)
		if env == "none" {
			return nil, ours
		}
		return map[string]string{"env": env}, ours
	}}
	for _, k := range g.kinds() {
		for _, ns := range k.places(g) {
			g.stored[k.key(ns)] = g.read(t, k, ns)
		}
	}
}

func (g *ground) read(t *testing.T, k kind, ns string) *unstructured.Unstructured {
	t.Helper()
	name := g.prefix + "old"
	if k.resource.Resource == "namespaces" {
		ns, name = "", ns
	}
	var subresources []string
	if k.subresource == "scale" {
		subresources = []string{k.subresource}
	}
	u, err := g.dynamic.Resource(k.resource).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{}, subresources...)
	require.NoError(t, err)
	return u
}

// configure puts webhooks into three configurations and waits until all three
// are in force, which a webhook of each tells that is new each time.
func (g *ground) configure(t fatal, hooks []hook) {
	g.generation++
	marker := fmt.Sprintf("g%d", g.generation)
	for _, name := range []string{"a", "b"} {
		c := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: g.id + "-" + name}}
		c.Webhooks = append(c.Webhooks, registrationv1.MutatingWebhook(g.marker(name, marker)))
		for _, h := range hooks {
			if h.configuration == name {
				c.Webhooks = append(c.Webhooks, h.hook)
			}
		}
		require.NoError(t, replace(g.clients.AdmissionregistrationV1().MutatingWebhookConfigurations(), c))
	}
	c := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: g.id + "-v"}}
	c.Webhooks = append(c.Webhooks, validating(g.marker("v", marker)))
	for _, h := range hooks {
		if h.configuration == "v" {
			c.Webhooks = append(c.Webhooks, validating(h.hook))
		}
	}
	require.NoError(t, replace(g.clients.AdmissionregistrationV1().ValidatingWebhookConfigurations(), c))
	g.await(t, marker)
}

// marker is a webhook for one object that only the test sends.
func (g *ground) marker(configuration, marker string) registrationv1.MutatingWebhook {
	return registrationv1.MutatingWebhook{
		Name: "marker.kplan.dev", SideEffects: new(registrationv1.SideEffectClassNone), FailurePolicy: new(registrationv1.Ignore),
		TimeoutSeconds: new(int32(5)), AdmissionReviewVersions: []string{"v1"},
		ClientConfig:   g.recorder.client("/" + marker + "/" + configuration),
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kplan.dev/marker": g.id + "-" + marker}},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
}

func (g *ground) await(t fatal, marker string) {
	for begin := time.Now(); ; {
		marked, err := g.mark(marker)
		require.NoError(t, err)
		if marked == 3 {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("webhooks are not in force after a minute")
		}
	}
}

// mark sends the object of the markers, and counts those that are called.
func (g *ground) mark(marker string) (int, error) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	u.SetName(g.id + "-marker")
	u.SetLabels(map[string]string{"kplan.dev/marker": g.id + "-" + marker})
	api := g.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(g.id)
	g.recorder.take()
	_, err := api.Create(context.Background(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return len(g.recorder.take()), err
}

// forget removes the configurations, and waits until they are out of force, or
// they would get in the way of the rest that is removed.
func (g *ground) forget() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("webhooks of a test are left behind"))
	defer cancel()
	api := g.clients.AdmissionregistrationV1()
	for _, name := range []string{"a", "b"} {
		_ = api.MutatingWebhookConfigurations().Delete(ctx, g.id+"-"+name, metav1.DeleteOptions{})
	}
	_ = api.ValidatingWebhookConfigurations().Delete(ctx, g.id+"-v", metav1.DeleteOptions{})
	for ctx.Err() == nil {
		if marked, err := g.mark(fmt.Sprintf("g%d", g.generation)); err != nil || marked == 0 {
			return
		}
	}
}

// replace creates an object or, if it is there, overwrites it.
func replace[T any](api interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
	Get(context.Context, string, metav1.GetOptions) (*T, error)
}, o *T,
) error {
	ctx := context.Background()
	_, err := api.Create(ctx, o, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	meta := any(o).(metav1.Object)
	old, err := api.Get(ctx, meta.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	meta.SetResourceVersion(any(old).(metav1.Object).GetResourceVersion())
	_, err = api.Update(ctx, o, metav1.UpdateOptions{})
	return err
}

func validating(h registrationv1.MutatingWebhook) registrationv1.ValidatingWebhook {
	return registrationv1.ValidatingWebhook{
		Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
		NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
		TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
	}
}

// entries reads the test's configurations back from the cluster.
func (g *ground) entries(t fatal) []webhook.Entry {
	var entries []webhook.Entry
	for name, resource := range map[string]string{"v": "validating", "b": "mutating", "a": "mutating"} {
		u, err := g.dynamic.Resource(schema.GroupVersionResource{
			Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource + "webhookconfigurations",
		}).Get(context.Background(), g.id+"-"+name, metav1.GetOptions{})
		require.NoError(t, err)
		found, err := webhook.EntriesOf(u)
		require.NoError(t, err)
		entries = append(entries, found...)
	}
	return entries
}
