package doctor

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kplan-dev/kplan/plan/finding"
)

// forbidden is what the API server answers to what a user may not do (apimachinery
// pkg/api/errors NewForbidden, apiserver pkg/endpoints/handlers/responsewriters). Of a log no
// more than that is quoted: the rest may hold what nobody is to see.
var forbidden = regexp.MustCompile(`User "(system:serviceaccount:[^"]+)" cannot (\w+) resource "([^"]+)"` +
	`(?: in API group "([^"]*)")?(?: in the namespace "[^"]+"| at the cluster scope)?`)

// refused adds what a Job's ServiceAccount was not allowed to do. An access review
// would be a write, so it is read from the log of the pod, and from the bindings.
func (c *Cluster) refused(ctx context.Context, p *corev1.Pod, state string, f *finding.Finding) {
	text := strings.ReplaceAll(c.log(ctx, p.Namespace, p.Name, failedContainer(p)), `\"`, `"`) // of a log in JSON
	match := forbidden.FindStringSubmatch(text)
	account := cmp.Or(p.Spec.ServiceAccountName, "default")
	if match == nil || match[1] != "system:serviceaccount:"+p.Namespace+":"+account {
		return
	}
	what := object("ServiceAccount", p.Namespace, account)
	f.Evidence = append(f.Evidence, finding.Evidence{Object: object("Pod", p.Namespace, p.Name), Field: "log", Value: match[0]})
	verb, resource := match[2], match[3]
	if match[4] != "" {
		resource += "." + match[4]
	}
	f.Message = fmt.Sprintf("%s: its ServiceAccount %s may not %s %s", state, account, verb, resource)
	f.Hint = fmt.Sprintf("add that to its Role or ClusterRole; look with kubectl auth can-i %s %s -n %s --as system:serviceaccount:%s:%s",
		verb, resource, p.Namespace, p.Namespace, account)
	bound, known := c.bindings(ctx, p.Namespace, account)
	dangling := slices.IndexFunc(bound, func(b binding) bool { return b.dangling })
	for _, b := range bound {
		f.Evidence = append(f.Evidence, b.evidence())
	}
	switch {
	case dangling >= 0:
		b := bound[dangling]
		f.Message += fmt.Sprintf(": %s %s names %s %s, which does not exist", b.kind, b.name, b.role.Kind, b.role.Name)
		f.Hint = fmt.Sprintf("create %s %s, or correct the binding; both have to be there before the hook starts, as hooks of a lower helm.sh/hook-weight", b.role.Kind, b.role.Name)
	case known && len(bound) == 0:
		f.Message += ", and has no rights at all: no RoleBinding or ClusterRoleBinding names it"
		f.Hint = "bind it to a Role that allows that, before the hook starts: the binding has to be a hook of a lower helm.sh/hook-weight"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: what, Field: "RoleBindings and ClusterRoleBindings", Value: "none"})
	}
}

// binding is a RoleBinding or ClusterRoleBinding.
type binding struct {
	kind, namespace, name string
	role                  rbacv1.RoleRef
	// dangling says that the role does not exist.
	dangling bool
}

func (b binding) evidence() finding.Evidence {
	e := finding.Evidence{Object: object(b.kind, b.namespace, b.name), Field: "roleRef", Value: b.role.Kind + " " + b.role.Name}
	if b.dangling {
		e.Value += ", which does not exist"
	}
	return e
}

// bindings are those that name a ServiceAccount; what all ServiceAccounts have is left
// out. known is false when they may not be read.
func (c *Cluster) bindings(ctx context.Context, namespace, account string) (found []binding, known bool) {
	names := func(subjects []rbacv1.Subject, in string) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == account && cmp.Or(s.Namespace, in) == namespace ||
				s.Kind == rbacv1.GroupKind && s.Name == "system:serviceaccounts:"+namespace
		})
	}
	add := func(b binding) {
		resource, in := rbacv1.SchemeGroupVersion.WithResource("clusterroles"), ""
		if b.role.Kind == "Role" {
			resource, in = rbacv1.SchemeGroupVersion.WithResource("roles"), b.namespace
		}
		there, known := c.exists(ctx, resource, in, b.role.Name)
		b.dangling = known && !there
		found = append(found, b)
	}
	// What was refused may be in another namespace, and the binding with it.
	inNamespaces, err := c.readAll(ctx, roleBindingResource, "", "", "")
	c.note(roleBindingResource, err)
	inCluster, failed := c.readAll(ctx, clusterBindingResource, "", "", "")
	c.note(clusterBindingResource, failed)
	for _, b := range all[rbacv1.RoleBinding](inNamespaces) {
		if names(b.Subjects, b.Namespace) {
			add(binding{kind: "RoleBinding", namespace: b.Namespace, name: b.Name, role: b.RoleRef})
		}
	}
	for _, b := range all[rbacv1.ClusterRoleBinding](inCluster) {
		if names(b.Subjects, "") {
			add(binding{kind: "ClusterRoleBinding", name: b.Name, role: b.RoleRef})
		}
	}
	return found, err == nil && failed == nil
}
