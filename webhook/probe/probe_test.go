package probe

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// answers is a client whose creations end as said, one after the other.
func answers(t *testing.T, errs ...error) *fake.FakeDynamicClient {
	t.Helper()
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns"}}}
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		namespacesGVR: "NamespaceList", crdsGVR: "CustomResourceDefinitionList",
	}, ns)
	c.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		require.NotEmpty(t, errs, "one request too many")
		err := errs[0]
		errs = errs[1:]
		create, ok := a.(clienttesting.CreateActionImpl)
		require.True(t, ok)
		require.Equal(t, []string{metav1.DryRunAll}, create.CreateOptions.DryRun)
		return true, create.Object, err
	})
	return c
}

// sideEffects forbid every dry run; the API server does not even call the webhook.
func TestAskWithSideEffects(t *testing.T) {
	e := hook(webhook.Validating, "x", "a", admissionv1.Fail)
	e.SideEffects = admissionv1.SideEffectClassUnknown
	o, err := New(Config{}, e).Ask(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, Unproven, o.State)
	require.Contains(t, o.Reason, "proves its configuration only")
}

// Without canaries and objects one is made up, in a namespace that the webhook
// is called for.
func TestAskMakesUp(t *testing.T) {
	e := hook(webhook.Validating, "x", "a", admissionv1.Fail)
	e.ObjectSelector = selector("guarded", "yes")
	refused := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError,
		Message: `Internal error occurred: failed calling webhook "a": failed to call webhook: Post "https://s.ns.svc:443/?timeout=3s": dial tcp 10.0.0.1:443: connect: connection refused`,
	}}
	client := answers(t, refused, nil)
	p := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}}, e)

	o, err := p.Ask(t.Context(), client)
	require.NoError(t, err)
	require.Equal(t, Missing, o.State)
	require.Contains(t, o.Reason, "connection refused")
	require.Equal(t, webhook.Race, o.Fault.Class)

	o, err = p.Ask(t.Context(), client)
	require.NoError(t, err)
	require.Equal(t, Outcome{State: Proven}, o)
}

// A webhook that guards everything guards ConfigMaps as well; one that guards
// other groups cannot be asked.
func TestAskWithWildcards(t *testing.T) {
	for group, want := range map[string]State{"*": Proven, "apps": Unproven} {
		e := hook(webhook.Validating, "x", "a", admissionv1.Fail)
		e.Rules[0].Rule = admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{"*"}}
		o, err := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}}, e).Ask(t.Context(), answers(t, nil))
		require.NoError(t, err)
		require.Equal(t, want, o.State, o.Reason)
	}
}

// What is unproven for want of rights is told from what nobody could prove. One
// try that was forbidden is enough: it might have proven the webhook.
func TestAskWithoutRights(t *testing.T) {
	status := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: message}}
	}
	rights := status(`configmaps is forbidden: User "me" cannot create resource "configmaps" in API group "" in the namespace "ns"`)
	quota := status(`configmaps "c" is forbidden: exceeded quota: q`)
	for name, tt := range map[string]struct {
		means     Config
		selector  *metav1.LabelSelector
		list      error
		creations []error
		want      bool
		reason    string
	}{
		"namespaces may not be listed": {list: status("no"), want: true, reason: "namespaces may not be listed"},
		"nothing may be created":       {creations: []error{rights}, want: true, reason: `User "me" cannot create`},
		"a quota":                      {creations: []error{quota}, reason: "exceeded quota"},
		"the first may not be created": {
			means: Config{Objects: []*unstructured.Unstructured{configMap(nil)}}, creations: []error{rights, quota}, want: true, reason: `User "me" cannot create`,
		},
		"labels may not be read": {
			means:    Config{Objects: []*unstructured.Unstructured{configMap(nil)}, Unlabelled: true},
			selector: selector("guarded", "yes"), list: status("no"), creations: []error{nil}, want: true, reason: "labels of namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := hook(webhook.Validating, "x", "a", admissionv1.Fail)
			e.NamespaceSelector = tt.selector
			tt.means.Mapper, tt.means.Matcher = onlyConfigMaps{}, &match.Matcher{}
			client := answers(t, tt.creations...)
			client.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return tt.list != nil, nil, tt.list })

			o, err := New(tt.means, e).Ask(t.Context(), client)

			require.NoError(t, err)
			require.Equal(t, Unproven, o.State)
			require.Equal(t, tt.want, o.Forbidden, o.Reason)
			require.Contains(t, o.Reason, tt.reason)
		})
	}
}

// Rights may have been granted a moment ago. Who has none in a while gets none by
// waiting.
func TestAskWithACanaryThatMayNotBeCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := func(message string) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: message}}
		}
		rights := status(`configmaps is forbidden: User "me" cannot create resource "configmaps" in API group "" in the namespace "ns"`)
		quota := status(`configmaps "c" is forbidden: exceeded quota: q`)
		c := Canary{Want: Accept, Object: configMap(nil), Source: "c.yaml"}
		p := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}, Canaries: []Canary{c}}, hook(webhook.Validating, "x", "a", admissionv1.Fail))
		client := answers(t, rights, quota, rights)

		o, err := p.Ask(t.Context(), client)
		require.NoError(t, err)
		require.Equal(t, Missing, o.State)
		time.Sleep(time.Minute)
		o, err = p.Ask(t.Context(), client)
		require.NoError(t, err, "objects go, and quotas are raised")
		require.Equal(t, Missing, o.State)
		_, err = p.Ask(t.Context(), client)
		require.ErrorAs(t, err, new(*RefusedError))
		require.EqualError(t, err, `the user may not create the accept canary c.yaml (ConfigMap/ns/c): `+
			`configmaps is forbidden: User "me" cannot create resource "configmaps" in API group "" in the namespace "ns"`)
	})
}

// Without its CRD nobody knows what a custom object needs: it is made up empty.
func TestSamplesWithoutSchema(t *testing.T) {
	for group, want := range map[string]bool{"example.io": true, "apps": false} {
		client := answers(t)
		client.PrependReactor("get", crdsGVR.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(crdsGVR.GroupResource(), "", nil)
		})
		p := New(Config{Matcher: &match.Matcher{}}, hook(webhook.Validating, "x", "a", admissionv1.Fail))
		things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
		u, err := p.sampleOf(t.Context(), client, &meta.RESTMapping{Resource: things, GroupVersionKind: things.GroupVersion().WithKind("Thing")})
		require.NoError(t, err)
		o := p.judgeObject(t.Context(), dryRun{object: u}, answer{refusal: "spec.size: Required value"})
		require.Equal(t, want, o.Forbidden, o.Reason)
		require.Equal(t, Unproven, o.State)
	}
}

// A canary is the reason as long as no call failed.
func TestAskNamesTheCanary(t *testing.T) {
	c := Canary{Want: Deny, Object: configMap(nil), Source: "c.yaml"}
	p := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}, Canaries: []Canary{c}}, hook(webhook.Validating, "x", "a", admissionv1.Fail))
	failed := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError,
		Message: `Internal error occurred: failed calling webhook "a": failed to call webhook: Post "https://s.ns.svc:443/?timeout=3s": dial tcp 10.0.0.1:443: connect: connection refused`,
	}}
	client := answers(t, nil, failed)
	for _, want := range []*Canary{&c, nil} {
		o, err := p.Ask(t.Context(), client)
		require.NoError(t, err)
		require.Equal(t, Missing, o.State)
		require.Equal(t, want, o.Canary)
	}
}

// What comes from no API server is no answer.
func TestAskWithoutAnswer(t *testing.T) {
	away := errors.New("connection refused")
	_, err := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}}, hook(webhook.Validating, "x", "a", admissionv1.Fail)).Ask(t.Context(), answers(t, away))
	require.ErrorIs(t, err, away)
}

// Nothing that is said about a Secret is repeated.
func TestSecretsStaySecret(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
	for _, message := range []string{`admission webhook "a" denied the request: hunter2 is weak`, `Secret "s" is invalid: data[password]: Invalid value: "hunter2"`} {
		a, err := read(t.Context(), &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid, Message: message,
		}}, secret)
		require.NoError(t, err)
		require.NotContains(t, a.refusal+a.fault.Message+a.fault.Cause, "hunter2")
	}
}

func TestExpression(t *testing.T) {
	original, object := configMap(nil), configMap(map[string]string{"made": "yes"})
	for text, want := range map[string]bool{
		`object.metadata.annotations["made"] == "yes"`:              true,
		`object.metadata.annotations != original.metadata`:          true,
		`has(original.metadata.annotations)`:                        false,
		`object.metadata.name.matches("^c$") && object.kind == "x"`: false,
		`quantity("1Gi").isGreaterThan(quantity("1Mi"))`:            true, // the API server's own functions
	} {
		e, err := Compile(text)
		require.NoError(t, err, text)
		got, err := e.Holds(object, original)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		`object.`:     "column 8",
		`objekt == 1`: "undeclared reference to 'objekt'",
		`"yes"`:       "it gives string",
	} {
		_, err := Compile(text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		`object.metadata.labels["x"] == "y"`: "no such key",
		`object.metadata.name`:               "it gives string",
		`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, string(a+b+c+d+e+f) != ""))))))`: "cost",
	} {
		e, err := Compile(text)
		require.NoError(t, err, text)
		_, err = e.Holds(object, original)
		require.ErrorContains(t, err, want, text)
	}
}
