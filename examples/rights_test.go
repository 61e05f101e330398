package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/preflight"
	"github.com/kplan-dev/kplan/steps/rights"
)

// Each example runs to its end, with its lock and its record, as a service account that has
// the rights of "kplan rbac" and no others. No request is forbidden.
func TestPlansRunWithTheirRights(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	t.Cleanup(func() { gone(t, lab, "kcm-system") })
	install(t, lab, "kcm", "kcm", "kcm-system")
	for _, tt := range []struct {
		file       string
		in         load.Options
		namespaces []string
	}{
		{"eso/plan.yaml", lab1("eso"), []string{"external-secrets", "registry-credentials", "hello-world", "nodejs-demo", "storage-validator"}},
		{"kgst/plan.yaml", lab1("kgst"), []string{"team-a"}},
		{"../lab/race/plan.yaml", load.Options{Set: []string{"listen_delay=5s"}}, []string{"race"}},
		{"certmanager/plan.yaml", lab1("certmanager"), []string{"cert-manager", "shop"}},
		{"dynamo/plan.yaml", lab1("dynamo"), []string{"dynamo-system"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			p, err := load.File(tt.file, tt.in)
			require.NoError(t, err)
			t.Cleanup(func() {
				for _, s := range slices.Backward(p.Steps) {
					if s.Helm != nil {
						uninstall(t, lab, s.ReleaseName(), s.Helm.Namespace)
					}
				}
				gone(t, lab, tt.namespaces...)
			})
			from := source.New(source.Options{Dir: p.Dir})
			defer from.Close()
			needed, err := preflight.Needs(t.Context(), p, lab.Flags(), from, "kplan-test", true)
			require.NoError(t, err)
			require.Len(t, needed, 1)
			user := granted(t, lab, p.Metadata.Name, needed[0])

			flags, run := lab.Flags(), ledger.NewRunID()
			flags.Impersonate = &user
			s, err := steps.New(t.Context(), steps.Config{
				Plan: p, Flags: flags, Run: run, UserAgent: "kplan-test",
				Lock: &steps.Lock{Waiting: func(string) {}, Lost: func(error) {}},
			})
			require.NoError(t, err)
			defer s.Close()
			var found []finding.Finding
			s.Preflight(t.Context(), steps.Preflight{Records: true, Strict: true, Within: patience}, func(f finding.Finding) { found = append(found, f) })
			require.Empty(t, found)

			home, err := s.Home(t.Context())
			require.NoError(t, err)
			store := ledger.Store{Place: &home}
			past, err := store.Past(t.Context(), p.Metadata.Name, s.Cluster())
			require.NoError(t, err)
			recording, err := store.Begin(t.Context(), run, past)
			require.NoError(t, err)
			var events recorder
			r := runner.Runner{ID: run, Resolve: s.Resolve, Guards: s.Guards, ReadInputs: s.ReadInputs, Observers: append(recording.Observers, &events)}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 3*patience, errors.New("the example takes too long"))
			defer cancel()
			_, err = r.Run(ctx, p)
			require.NoError(t, err)
			require.NoError(t, recording.Close())
			requirePermitted(t, events)
		})
	}
}

// requirePermitted wants that nothing in a run says that a right was missing.
func requirePermitted(t *testing.T, events []runner.Event) {
	t.Helper()
	lacking := regexp.MustCompile(`forbidden|[Mm]ay not|cannot be kept`)
	for _, e := range events {
		line, err := json.Marshal(e)
		require.NoError(t, err)
		// What a pod mounts "may not exist yet": that is no right.
		require.NotRegexp(t, lacking, strings.ReplaceAll(string(line), "may not exist", ""))
	}
}

// granted makes the roles of a plan, and a service account that they are bound to; it
// returns whom to impersonate.
func granted(t *testing.T, lab *labtest.Lab, name string, needed preflight.Needed) string {
	t.Helper()
	account := lab.Namespace(t)
	set := lab.Clientset(t)
	_, err := set.CoreV1().ServiceAccounts(account).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	roles := rights.RolesOf(needed.Rules, rights.Grant{Name: "rights-of-" + name, Account: account + "/deployer"})
	for _, namespace := range rights.NamespacesOf(roles, func(name string) bool { return needed.Makes[name] }) {
		_, err := set.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
		require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	}
	user := "system:serviceaccount:" + account + ":deployer"
	for _, object := range roles.Objects() {
		require.NoError(t, grant(t, set, object))
	}
	for _, object := range roles.Objects() {
		if role, is := object.(*rbacv1.Role); is {
			requireGranted(t, set, user, role)
		}
	}
	return user
}

// requireGranted waits until the API server has heard of a role: it reads them by a watch.
func requireGranted(t *testing.T, set kubernetes.Interface, user string, role *rbacv1.Role) {
	t.Helper()
	for _, rule := range role.Rules {
		group, resource, part := rule.APIGroups[0], rule.Resources[0], ""
		resource, part, _ = strings.Cut(resource, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: role.Namespace, Verb: rule.Verbs[0], Group: group, Resource: resource, Subresource: part,
		}}}
		if len(rule.ResourceNames) > 0 {
			review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
		}
		require.Eventually(t, func() bool {
			seen, err := set.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			return err == nil && seen.Status.Allowed
		}, patience, 50*time.Millisecond, "%s may %s %s in %s", user, rule.Verbs[0], resource, role.Namespace)
	}
}

// grant makes one of the objects of roles, until the end of the test.
func grant(t *testing.T, set kubernetes.Interface, object any) (err error) {
	t.Helper()
	rbac, ctx := set.RbacV1(), t.Context()
	var remove func() error
	switch o := object.(type) {
	case *rbacv1.ClusterRole:
		_, err = rbac.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		remove = func() error { return rbac.ClusterRoles().Delete(context.Background(), o.Name, metav1.DeleteOptions{}) }
	case *rbacv1.ClusterRoleBinding:
		_, err = rbac.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		remove = func() error {
			return rbac.ClusterRoleBindings().Delete(context.Background(), o.Name, metav1.DeleteOptions{})
		}
	case *rbacv1.Role:
		_, err = rbac.Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		remove = func() error {
			return rbac.Roles(o.Namespace).Delete(context.Background(), o.Name, metav1.DeleteOptions{})
		}
	case *rbacv1.RoleBinding:
		_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		remove = func() error {
			return rbac.RoleBindings(o.Namespace).Delete(context.Background(), o.Name, metav1.DeleteOptions{})
		}
	}
	t.Cleanup(func() { _ = remove() })
	return err
}
