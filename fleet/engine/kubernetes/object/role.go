package object

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
)

// Grant says for whom roles are made.
type Grant struct {
	// Fleet is the fleet's name, and Engine says where its runs are.
	Fleet  string
	Engine fleet.KubernetesEngine
	// Clusters are those that workers read the kubeconfigs of.
	Clusters []fleet.Cluster
	// Runs are the only runs that the roles are for; none means all of the namespace, since
	// a run has no name before it begins. Rounds is how often each may be resumed.
	Runs   []Run
	Rounds int
	// Waves is how many waves the fleet has.
	Waves int
}

// Objects makes the ServiceAccounts of workers and driver, and the Roles that they need, with
// their bindings. Workers read the Secrets that are named; nobody lists any.
func (g Grant) Objects() []any {
	worker, driver := cmp.Or(g.Engine.ServiceAccount, WorkerAccount), cmp.Or(g.Engine.DriverServiceAccount, DriverAccount)
	objects := []any{g.serviceAccount(worker), g.serviceAccount(driver)}
	files, jobs, changed := g.names()
	objects = append(objects, g.role(g.Engine.Namespace, worker, worker,
		rule("", "configmaps", files, "get"), rule("batch", "jobs", jobs, "get"))...)
	for _, namespace := range slices.Sorted(g.secrets()) {
		objects = append(objects, g.role(namespace, worker+"-"+FleetLabel(g.Fleet), worker, rule("", "secrets", g.secretsIn(namespace), "get"))...)
	}
	return append(objects, g.role(g.Engine.Namespace, driver, driver,
		rule("batch", "jobs", nil, "list", "watch"), rule("batch", "jobs", jobs, "get", "patch"),
		rule("", "pods", nil, "list", "watch"), rule("", "events", nil, "list"),
		rule("", "configmaps", files, "get"), rule("", "configmaps", changed, "update"))...)
}

// names are those of the objects of the runs that the roles are for: ConfigMaps, Jobs, and
// the ConfigMaps that change.
func (g Grant) names() (files, jobs, changed []string) {
	for _, r := range g.Runs {
		changed = append(changed, r.Control(), r.Results())
		files = append(files, r.Rollout(), r.Bundle())
		for w := range g.Waves {
			files = append(files, r.Clusters(w))
			for round := range g.Rounds + 1 {
				jobs = append(jobs, r.Wave(w, round+1))
			}
		}
	}
	return append(files, changed...), jobs, changed
}

func rule(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

func (g Grant) labels() map[string]string {
	return map[string]string{LabelManager: Manager, LabelFleet: FleetLabel(g.Fleet)}
}

func (g Grant) serviceAccount(name string) any {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: g.Engine.Namespace, Labels: g.labels()},
	}
}

// role makes a Role and its binding to a ServiceAccount of the engine's namespace.
func (g Grant) role(namespace, name, account string, rules ...rbacv1.PolicyRule) []any {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: g.labels()}
	return []any{
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: g.Engine.Namespace}},
		},
	}
}

// secrets are the namespaces of the clusters' kubeconfigs.
func (g Grant) secrets() iter.Seq[string] {
	all := map[string]bool{}
	for _, c := range g.Clusters {
		if s := c.Access.Secret; s != nil {
			all[s.Namespace] = true
		}
	}
	return maps.Keys(all)
}

func (g Grant) secretsIn(namespace string) []string {
	all := map[string]bool{}
	for _, c := range g.Clusters {
		if s := c.Access.Secret; s != nil && s.Namespace == namespace {
			all[s.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
