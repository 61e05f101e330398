package hold

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// A real API server answers before it calls webhooks.
func TestAnswersOfAnAPIServer(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	admin := lab.Clientset(t)
	for name, tc := range map[string]struct {
		during func(t *testing.T, ns string)
		check  func(error) bool
	}{
		"the user may not any more": {
			func(t *testing.T, ns string) {
				t.Helper()
				require.NoError(t, admin.RbacV1().RoleBindings(ns).Delete(t.Context(), "writer", metav1.DeleteOptions{}))
			},
			apierrors.IsForbidden,
		},
		"the namespace goes": {
			func(t *testing.T, ns string) {
				t.Helper()
				require.NoError(t, admin.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
			},
			func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) },
		},
		"the credentials are void": {
			func(t *testing.T, ns string) {
				t.Helper()
				require.NoError(t, admin.CoreV1().ServiceAccounts(ns).Delete(t.Context(), "default", metav1.DeleteOptions{}))
			},
			apierrors.IsUnauthorized,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			config := rest.AnonymousClientConfig(lab.Config(t))
			config.BearerToken = writer(t, admin, ns)
			name := guard(t, admin, ns)
			view := survey.New(dynamic.NewForConfigOrDie(lab.Config(t)))
			t.Cleanup(view.Close)
			following := view.Subscribe(survey.Target{Match: func(e webhook.Entry) bool { return e.Name == name }}, func() {})
			gate := NewGate(view)
			var during sync.Once
			config.Wrap(func(base http.RoundTripper) http.RoundTripper {
				return &Transport{Base: base, Gate: gate, Timeout: time.Minute, Notify: func(n Notice) {
					if n.Event == Held {
						during.Do(func() { tc.during(t, ns) })
					}
					if n.Event == Released {
						if err := n.Err; err != nil {
							t.Error(err)
						}
						if admits(following.Statuses()) {
							t.Error("the webhook is taken to be admitting")
						}
					}
				}}
			})
			client, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)

			_, err = client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})

			require.True(t, tc.check(err), "%v", err)
		})
	}
}

// writer gives the token of a service account that may create ConfigMaps in a namespace.
func writer(t *testing.T, admin kubernetes.Interface, ns string) string {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "writer"}
	_, err := admin.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "default"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := admin.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// guard configures a webhook for the ConfigMaps of a namespace at a Service that is
// not there, and gives its name once it is called.
func guard(t *testing.T, admin kubernetes.Interface, ns string) string {
	t.Helper()
	name := ns + ".hold.example.io"
	effects := admissionregistrationv1.SideEffectClassNone
	configurations := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:              name,
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: ns, Name: "none"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			SideEffects: &effects, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = configurations.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	require.Eventually(t, func() bool {
		_, err := admin.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return webhook.ClassifyError(err).Webhook == name
	}, time.Minute, 20*time.Millisecond, "the API server learns of a configuration by a watch")
	return name
}
