package kinds

// builtinGroups are the groups that the API server itself serves (k8s.io/api
// v0.37), besides the core group.
var builtinGroups = map[string]bool{
	"admissionregistration.k8s.io": true, "apiextensions.k8s.io": true, "apiregistration.k8s.io": true, "apps": true,
	"authentication.k8s.io": true, "authorization.k8s.io": true, "autoscaling": true, "batch": true,
	"certificates.k8s.io": true, "coordination.k8s.io": true, "discovery.k8s.io": true, "events.k8s.io": true,
	"flowcontrol.apiserver.k8s.io": true, "internal.apiserver.k8s.io": true, "networking.k8s.io": true, "node.k8s.io": true,
	"policy": true, "rbac.authorization.k8s.io": true, "resource.k8s.io": true, "scheduling.k8s.io": true,
	"storage.k8s.io": true, "storagemigration.k8s.io": true,
}

// Custom reports whether the kinds of an API group are custom resources, or those of
// an aggregated API server.
func Custom(group string) bool { return group != "" && !builtinGroups[group] }
