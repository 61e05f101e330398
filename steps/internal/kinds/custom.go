package kinds

import "k8s.io/client-go/kubernetes/scheme"

// Custom reports whether the kinds of an API group are custom resources, or those of
// an aggregated API server: none of Kubernetes' own.
func Custom(group string) bool {
	return !scheme.Scheme.IsGroupRegistered(group) && group != Definitions.Group && group != "apiregistration.k8s.io"
}
