package survey_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// TestServer climbs the ladder on a real API server, once as its administrator
// and once as somebody who may list, and neither watch nor read Secrets.
func TestServer(t *testing.T) {
	lab := labtest.ControlPlane(t)
	for name, limited := range map[string]bool{"administrator": false, "may not watch": true} {
		t.Run(name, func(t *testing.T) {
			ns := lab.Namespace(t)
			admin := lab.Clientset(t)
			configure(t, admin, ns)
			config := lab.Config(t)
			if limited {
				config = lister(t, lab, ns)
			}
			client, err := dynamic.NewForConfig(config)
			require.NoError(t, err)
			view := survey.New(client)
			t.Cleanup(view.Close)
			changed := make(chan struct{}, 1)
			f := view.Subscribe(survey.Target{Match: func(e webhook.Entry) bool { return e.Configuration == ns }}, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			// until waits for a rung's state, by the survey's changes alone.
			until := func(rung webhook.Rung, state webhook.State) webhook.Reading {
				late := time.After(time.Minute)
				for {
					if standings := f.Statuses(); f.Synced() && len(standings) == 1 {
						if r, _ := standings[0].Ladder.At(rung); r.State == state {
							return r
						}
					}
					select {
					case <-changed:
					case <-late:
						require.Fail(t, "too late", "%s is not %s: %+v, %v", rung, state, f.Statuses(), view.Unreadable())
					}
				}
			}

			until(webhook.Routed, webhook.Waiting)
			_, err = admin.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "w"},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "w"}, Ports: []corev1.ServicePort{{Port: 443}}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			until(webhook.Routed, webhook.Ready)
			require.Contains(t, until(webhook.Backed, webhook.Waiting).Reason, "no endpoints")
			_, err = admin.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: "mine", Labels: map[string]string{discoveryv1.LabelServiceName: "w"}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(9443))}},
				Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			until(webhook.Backed, webhook.Ready)
			if !limited {
				require.Empty(t, view.Polled())
			} else {
				require.Contains(t, strings.Join(view.Polled(), "\n"), "may not watch services in namespace "+ns)
			}
		})
	}
}

// configure makes a webhook that guards nothing that there is.
func configure(t *testing.T, admin kubernetes.Interface, ns string) {
	t.Helper()
	none := admissionv1.SideEffectClassNone
	configurations := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "w.example.io", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: ns, Name: "w"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"survey.example.io"}, APIVersions: []string{"v1"}, Resources: []string{"none"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = configurations.Delete(context.Background(), ns, metav1.DeleteOptions{}) })
}

// lister is the access of a service account that may list all that a survey
// needs and nothing else.
func lister(t *testing.T, lab *labtest.Lab, ns string) *rest.Config {
	t.Helper()
	rbac := lab.Clientset(t).RbacV1()
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
			{APIGroups: []string{"", "discovery.k8s.io"}, Resources: []string{"services", "pods", "endpointslices"}, Verbs: []string{"list"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rbac.ClusterRoles().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "lister"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rbac.ClusterRoleBindings().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	config := lab.Config(t)
	config.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:lister", ns)
	return config
}
