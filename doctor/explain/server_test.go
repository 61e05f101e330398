package explain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/doctor/explain"
	"github.com/kplan-dev/kplan/internal/labtest"
)

// place is a namespace of a real API server, in which each case makes what fails.
type place struct {
	kubernetes.Interface
	t         *testing.T
	config    *rest.Config
	namespace string
}

func (p place) configMap(ctx context.Context, name string, change ...func(*corev1.ConfigMap)) error {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(c)
	}
	_, err := p.CoreV1().ConfigMaps(p.namespace).Create(ctx, c, metav1.CreateOptions{})
	return err
}

func (p place) apply(ctx context.Context, name, manager, text string) error {
	_, err := p.CoreV1().ConfigMaps(p.namespace).Patch(ctx, name, types.ApplyPatchType, []byte(text),
		metav1.PatchOptions{FieldManager: manager, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// finalized has a finalizer that nobody takes away but the test.
func finalized(c *corev1.ConfigMap) { c.Finalizers = []string{"kplan.dev/test"} }

// webhook configures a webhook that guards the ConfigMaps of the namespace with a label.
func (p place) webhook(name, service string) {
	p.t.Helper()
	none := admissionv1.SideEffectClassNone
	c := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace + "-" + name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: name + ".example.io", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: p.namespace, Name: service}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": name}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	all := p.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := all.Create(p.t.Context(), c, metav1.CreateOptions{})
	require.NoError(p.t, once(err))
	p.t.Cleanup(func() { _ = all.Delete(context.WithoutCancel(p.t.Context()), c.Name, metav1.DeleteOptions{}) })
}

// What a real API server, and a client without one, answers is explained.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for rule, fail := range serverErrors {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			p := place{lab.Clientset(t), t, lab.Config(t), lab.Namespace(t)}
			var err error
			var all []explain.Explanation
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
				if err = fail(p); err == nil { // admission does not know yet what was made
					continue
				}
				all = explain.Text(err.Error())
				break
			}
			require.Error(t, err)
			require.Len(t, all, 1, "%v", err)
			require.Equal(t, rule, all[0].Rule, "%v", err)
		})
	}
}

// once makes something the first time that it is asked for.
func once(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

var serverErrors = map[string]func(place) error{
	"webhook-no-service": func(p place) error {
		p.webhook("gone", "gone")
		return p.configMap(p.t.Context(), "", func(c *corev1.ConfigMap) { c.GenerateName, c.Labels = "c-", map[string]string{"guarded": "gone"} })
	},
	"quota-exceeded": func(p place) error {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")},
		}}
		_, err := p.CoreV1().ResourceQuotas(p.namespace).Create(p.t.Context(), q, metav1.CreateOptions{})
		require.NoError(p.t, once(err))
		_, err = p.CoreV1().Secrets(p.namespace).Create(p.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "status unknown for quota") {
			return nil
		}
		return err
	},
	"policy-denied": func(p place) error {
		name := p.namespace + "-explain"
		policies, bindings := p.AdmissionregistrationV1().ValidatingAdmissionPolicies(), p.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		_, err := policies.Create(p.t.Context(), &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				Validations: []admissionv1.Validation{{Expression: "false", Message: "nothing may be made here"}},
				MatchConstraints: &admissionv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace}},
					ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
					}}},
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(p.t, once(err))
		_, err = bindings.Create(p.t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		}, metav1.CreateOptions{})
		require.NoError(p.t, once(err))
		p.t.Cleanup(func() {
			ctx := context.WithoutCancel(p.t.Context())
			_ = bindings.Delete(ctx, name, metav1.DeleteOptions{})
			_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
		})
		_, err = p.CoreV1().Secrets(p.namespace).Create(p.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		return err
	},
	"pod-security": func(p place) error {
		_, err := p.CoreV1().Namespaces().Patch(p.t.Context(), p.namespace, types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`), metav1.PatchOptions{})
		require.NoError(p.t, err)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		_, err = p.CoreV1().Pods(p.namespace).Create(p.t.Context(), pod, metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "error looking up service account") {
			return nil // its controller has not made it yet
		}
		return err
	},
	"forbidden": func(p place) error {
		config := rest.CopyConfig(p.config)
		config.Impersonate.UserName = "system:serviceaccount:" + p.namespace + ":default"
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets(p.namespace).List(p.t.Context(), metav1.ListOptions{})
		return err
	},
	"not-logged-in": func(p place) error {
		config := rest.AnonymousClientConfig(p.config)
		config.BearerToken = "nobody"
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets(p.namespace).List(p.t.Context(), metav1.ListOptions{})
		return err
	},
	"server-certificate": func(p place) error {
		config := rest.AnonymousClientConfig(p.config)
		config.CAData, config.CAFile = nil, ""
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets(p.namespace).List(p.t.Context(), metav1.ListOptions{})
		return err
	},
	"server-unreachable": func(p place) error {
		_, err := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://127.0.0.1:1"}).CoreV1().Secrets(p.namespace).List(p.t.Context(), metav1.ListOptions{})
		return err
	},
	"namespace-missing": func(p place) error {
		p.namespace = "there-is-none"
		return p.configMap(p.t.Context(), "c")
	},
	"namespace-terminating": func(p place) error {
		require.NoError(p.t, once(p.configMap(p.t.Context(), "kept", finalized)))
		p.t.Cleanup(func() { p.release() })
		require.NoError(p.t, p.CoreV1().Namespaces().Delete(p.t.Context(), p.namespace, metav1.DeleteOptions{}))
		return p.configMap(p.t.Context(), "c")
	},
	"object-deleting": func(p place) error {
		require.NoError(p.t, p.configMap(p.t.Context(), "kept", finalized))
		p.t.Cleanup(func() { p.release() })
		require.NoError(p.t, p.CoreV1().ConfigMaps(p.namespace).Delete(p.t.Context(), "kept", metav1.DeleteOptions{}))
		return p.configMap(p.t.Context(), "kept")
	},
	"already-exists": func(p place) error {
		require.NoError(p.t, p.configMap(p.t.Context(), "c"))
		return p.configMap(p.t.Context(), "c")
	},
	"object-modified": func(p place) error {
		require.NoError(p.t, p.configMap(p.t.Context(), "c"))
		_, err := p.CoreV1().ConfigMaps(p.namespace).Update(p.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}}, metav1.UpdateOptions{})
		return err
	},
	"apply-conflict": func(p place) error {
		const text = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"key": "VALUE"}}`
		require.NoError(p.t, p.apply(p.t.Context(), "c", "first", text))
		return p.apply(p.t.Context(), "c", "second", strings.ReplaceAll(text, "VALUE", "another"))
	},
	"unknown-field": func(p place) error {
		return p.apply(p.t.Context(), "c", "test", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "daat": {}}`)
	},
	"field-immutable": func(p place) error {
		require.NoError(p.t, p.configMap(p.t.Context(), "c", func(c *corev1.ConfigMap) { c.Immutable = new(true) }))
		_, err := p.CoreV1().ConfigMaps(p.namespace).Patch(p.t.Context(), "c", types.MergePatchType, []byte(`{"data": {"key": "value"}}`), metav1.PatchOptions{})
		return err
	},
	"object-invalid": func(p place) error {
		return p.configMap(p.t.Context(), "c", func(c *corev1.ConfigMap) { c.Data = map[string]string{"no/key": ""} })
	},
	"annotation-too-long": func(p place) error {
		return p.configMap(p.t.Context(), "c", func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"a": strings.Repeat("x", 300<<10)} })
	},
	"object-too-large": func(p place) error {
		return p.configMap(p.t.Context(), "c", func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": strings.Repeat("x", 4<<20)} })
	},
	"kind-not-served": func(p place) error {
		widgets := schema.GroupVersionResource{Group: "none.example.io", Version: "v1", Resource: "widgets"}
		_, err := dynamic.NewForConfigOrDie(p.config).Resource(widgets).List(p.t.Context(), metav1.ListOptions{})
		return err
	},
	"object-missing": func(p place) error {
		_, err := p.CoreV1().Secrets(p.namespace).Get(p.t.Context(), "none", metav1.GetOptions{})
		return err
	},
}

// release lets the object go that has a finalizer.
func (p place) release() {
	_, _ = p.CoreV1().ConfigMaps(p.namespace).Patch(context.WithoutCancel(p.t.Context()), "kept", types.MergePatchType,
		[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
}
