package apply

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// phase is when an object is sent. A later phase begins when the requests of
// the one before were answered; those that are held for a webhook are not
// waited for, since what they wait for may come in a later phase.
type phase int

const (
	// first are namespaces and CustomResourceDefinitions: nothing else works
	// without them, so they are waited for in any case.
	first phase = iota
	// ground is what workloads refer to: accounts, rights, configuration, services.
	ground
	// work is everything else that Kubernetes itself knows: workloads and webhook
	// configurations too.
	work
	// custom is all custom resources: after the webhook configurations, so that
	// the webhooks see them, and after the operators that bring the webhooks.
	custom
	phases
)

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	secretKind    = schema.GroupKind{Kind: "Secret"}
	podKind       = schema.GroupKind{Kind: "Pod"}
)

var groundKinds = map[string]bool{
	"ServiceAccount": true, "Secret": true, "ConfigMap": true, "Service": true, "ResourceQuota": true, "LimitRange": true,
	"PersistentVolume": true, "PersistentVolumeClaim": true,
}

// groundGroups are the groups whose kinds all belong to the ground.
var groundGroups = map[string]bool{
	"rbac.authorization.k8s.io": true, "storage.k8s.io": true, "scheduling.k8s.io": true, "networking.k8s.io": true,
	"node.k8s.io": true,
}

// Before reports whether a step is done with objects of kind a, unless they are
// held for a webhook, before it sends objects of kind b.
func Before(a, b schema.GroupKind) bool { return phaseOf(a) < phaseOf(b) }

func phaseOf(gk schema.GroupKind) phase {
	switch {
	case gk == namespaceKind, gk.Group == kinds.Definitions.Group:
		return first
	case gk.Group == "" && groundKinds[gk.Kind], groundGroups[gk.Group]:
		return ground
	case kinds.Custom(gk.Group):
		return custom
	}
	return work
}
