package rights

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Grant says how roles are called, and who gets them.
type Grant struct {
	// Name is the name of all roles and bindings.
	Name string
	// Account is the service account that the roles are bound to, as namespace/name; ""
	// binds them to nobody.
	Account string
	// Labels are put on all objects.
	Labels map[string]string
}

// Roles are the objects that grant some rights, in the order in which they can be applied.
type Roles struct {
	ClusterRole        *rbacv1.ClusterRole // nil without rights to the whole cluster
	ClusterRoleBinding *rbacv1.ClusterRoleBinding
	Roles              []*rbacv1.Role
	RoleBindings       []*rbacv1.RoleBinding
}

// RolesOf makes the roles that grant what rules need: a Role for each namespace, and a
// ClusterRole for the rest. Rules that the ClusterRole covers are not repeated.
func RolesOf(rules []Rule, g Grant) Roles {
	byNamespace := map[string][]Rule{}
	all := Distinct(stripped(rules))
	for _, r := range all {
		if !covered(r, all) {
			byNamespace[r.Namespace] = append(byNamespace[r.Namespace], r)
		}
	}
	var out Roles
	object := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: g.Name, Namespace: namespace, Labels: maps.Clone(g.Labels)}
	}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: g.Name}
	}
	for _, namespace := range sortedKeys(byNamespace) {
		policy := policyOf(byNamespace[namespace])
		if namespace == "" {
			out.ClusterRole = &rbacv1.ClusterRole{TypeMeta: typeOf("ClusterRole"), ObjectMeta: object(""), Rules: policy}
			out.ClusterRoleBinding = &rbacv1.ClusterRoleBinding{
				TypeMeta: typeOf("ClusterRoleBinding"), ObjectMeta: object(""), Subjects: g.subjects(), RoleRef: ref("ClusterRole"),
			}
			continue
		}
		out.Roles = append(out.Roles, &rbacv1.Role{TypeMeta: typeOf("Role"), ObjectMeta: object(namespace), Rules: policy})
		out.RoleBindings = append(out.RoleBindings, &rbacv1.RoleBinding{
			TypeMeta: typeOf("RoleBinding"), ObjectMeta: object(namespace), Subjects: g.subjects(), RoleRef: ref("Role"),
		})
	}
	if g.Account == "" {
		out.ClusterRoleBinding, out.RoleBindings = nil, nil
	}
	return out
}

// Objects are all of them, each of which can be applied after those before it.
func (r Roles) Objects() []any {
	var all []any
	if r.ClusterRole != nil {
		all = append(all, r.ClusterRole)
	}
	if r.ClusterRoleBinding != nil {
		all = append(all, r.ClusterRoleBinding)
	}
	for i, role := range r.Roles {
		all = append(all, role)
		if i < len(r.RoleBindings) {
			all = append(all, r.RoleBindings[i])
		}
	}
	return all
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func (g Grant) subjects() []rbacv1.Subject {
	namespace, name, _ := strings.Cut(g.Account, "/")
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
}

// stripped are rules without who needs them, of which none is optional: a role grants all.
func stripped(rules []Rule) []Rule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].Step, out[i].For, out[i].Optional = "", "", false
	}
	return out
}

// covered reports whether a rule of a namespace is within one of the whole cluster, or a
// rule within one with wildcards.
func covered(r Rule, all []Rule) bool {
	return slices.ContainsFunc(all, func(o Rule) bool { return !same(r, o) && o.Covers(r) })
}

// same reports whether two rules are of the same right.
func same(a, b Rule) bool {
	return a.Group == b.Group && a.Resource == b.Resource && a.Verb == b.Verb && a.URL == b.URL && a.Namespace == b.Namespace && slices.Equal(a.Names, b.Names)
}

// Covers reports whether who has the right r has the right o too.
func (r Rule) Covers(o Rule) bool {
	fits := func(mine, wanted string) bool { return mine == "*" || mine == wanted }
	if r.URL != "" || o.URL != "" {
		return r.URL != "" && o.URL != "" && fits(r.Verb, o.Verb) && (fits(r.URL, o.URL) || strings.HasSuffix(r.URL, "*") && strings.HasPrefix(o.URL, strings.TrimSuffix(r.URL, "*")))
	}
	if !fits(r.Verb, o.Verb) || !fits(r.Group, o.Group) || !fits(r.Resource, o.Resource) || r.Namespace != "" && r.Namespace != o.Namespace {
		return false
	}
	if r.Names == nil {
		return true
	}
	return o.Names != nil && !slices.ContainsFunc(o.Names, func(name string) bool { return !slices.Contains(r.Names, name) })
}

// policyOf makes the rules of a role: verbs of a resource come together, then resources of
// a group that have the same verbs and names.
func policyOf(rules []Rule) []rbacv1.PolicyRule {
	type place struct{ group, resource, url, names string }
	named := map[place]Rule{}
	verbs := map[place][]string{}
	for _, r := range rules {
		p := place{r.Group, r.Resource, r.URL, strings.Join(r.Names, " ")}
		named[p] = r
		verbs[p] = append(verbs[p], r.Verb)
	}
	type class struct{ group, verbs, names string }
	resources := map[class][]string{}
	var policy []rbacv1.PolicyRule
	for p, all := range verbs {
		slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(verbOrder(a), verbOrder(b)), cmp.Compare(a, b)) })
		if p.url != "" {
			policy = append(policy, rbacv1.PolicyRule{Verbs: all, NonResourceURLs: []string{p.url}})
			continue
		}
		k := class{p.group, strings.Join(all, " "), p.names}
		resources[k] = append(resources[k], p.resource)
	}
	for k, of := range resources {
		slices.Sort(of)
		policy = append(policy, rbacv1.PolicyRule{
			APIGroups: []string{k.group}, Resources: of, Verbs: strings.Fields(k.verbs), ResourceNames: named[place{k.group, of[0], "", k.names}].Names,
		})
	}
	slices.SortFunc(policy, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(
			slices.Compare(a.NonResourceURLs, b.NonResourceURLs), slices.Compare(a.APIGroups, b.APIGroups),
			slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames), slices.Compare(a.Verbs, b.Verbs),
		)
	})
	return policy
}

// NamespacesOf are namespaces of roles, as objects to be applied before them; own says
// which of them a plan makes.
func NamespacesOf(r Roles, own func(string) bool) []*corev1.Namespace {
	var all []*corev1.Namespace
	for _, role := range r.Roles {
		if own(role.Namespace) {
			all = append(all, &corev1.Namespace{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: role.Namespace},
			})
		}
	}
	return all
}
