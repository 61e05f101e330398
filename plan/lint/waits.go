package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
)

// conditions are those that a kind can have.
type conditions struct {
	// names are the kind's names in wait.resource, the first one for messages.
	names []string
	group string
	types []string
	// open says that others add types of their own; then only types that are known
	// of other kinds are taken for mistakes.
	open bool
	// instead is what to wait for.
	instead string
}

// known are the kinds whose conditions are known: those of Kubernetes v1.37
// (k8s.io/api, *_types.go), of cert-manager v1 and of External Secrets.
var known = []conditions{
	{names: []string{"Deployment", "deployments", "deploy"}, group: "apps", types: []string{"Available", "Progressing", "ReplicaFailure"}},
	{names: []string{"ReplicaSet", "replicasets", "rs"}, group: "apps", types: []string{"ReplicaFailure"}, instead: "jsonpath={.status.readyReplicas}=N"},
	{names: []string{"ReplicationController", "replicationcontrollers", "rc"}, types: []string{"ReplicaFailure"}, instead: "jsonpath={.status.readyReplicas}=N"},
	{names: []string{"StatefulSet", "statefulsets", "sts"}, group: "apps", instead: "jsonpath={.status.readyReplicas}=N, or wait: ready in the step that sends it"},
	{names: []string{"DaemonSet", "daemonsets", "ds"}, group: "apps", instead: "jsonpath={.status.numberReady}=N, or wait: ready in the step that sends it"},
	{names: []string{"Job", "jobs"}, group: "batch", types: []string{"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"}},
	{names: []string{"CronJob", "cronjobs", "cj"}, group: "batch", instead: "jsonpath={.status.lastSuccessfulTime}"},
	{names: []string{"Pod", "pods", "po"}, open: true, types: []string{
		"Ready", "ContainersReady", "Initialized", "PodScheduled", "PodReadyToStartContainers", "DisruptionTarget", "PodResizePending", "PodResizeInProgress",
	}},
	{names: []string{"Node", "nodes", "no"}, open: true, types: []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}},
	{names: []string{"Namespace", "namespaces", "ns"}, instead: "jsonpath={.status.phase}=Active", types: []string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure", "NamespaceDeletionGroupVersionParsingFailure",
		"NamespaceContentRemaining", "NamespaceFinalizersRemaining",
	}},
	{names: []string{"PersistentVolumeClaim", "persistentvolumeclaims", "pvc"}, instead: "jsonpath={.status.phase}=Bound", types: []string{
		"Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError", "ModifyVolumeError", "ModifyingVolume", "Unused",
	}},
	{names: []string{"PersistentVolume", "persistentvolumes", "pv"}, instead: "jsonpath={.status.phase}=Bound"},
	{names: []string{"ConfigMap", "configmaps", "cm"}, instead: "create, or jsonpath={.data.KEY}"},
	{names: []string{"Secret", "secrets"}, instead: "create, or jsonpath={.data.KEY}"},
	{names: []string{"ServiceAccount", "serviceaccounts", "sa"}, instead: "create"},
	{names: []string{"Ingress", "ingresses", "ing"}, group: "networking.k8s.io", instead: "jsonpath={.status.loadBalancer.ingress}"},
	{names: []string{"EndpointSlice", "endpointslices"}, group: "discovery.k8s.io", instead: "create"},
	{names: []string{"StorageClass", "storageclasses", "sc"}, group: "storage.k8s.io", instead: "create"},
	{names: []string{"HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"}, group: "autoscaling", types: []string{"ScalingActive", "AbleToScale", "ScalingLimited"}},
	{names: []string{"PodDisruptionBudget", "poddisruptionbudgets", "pdb"}, group: "policy", types: []string{"DisruptionAllowed"}},
	{names: []string{"CertificateSigningRequest", "certificatesigningrequests", "csr"}, group: "certificates.k8s.io", types: []string{"Approved", "Denied", "Failed"}},
	{names: []string{"APIService", "apiservices"}, group: "apiregistration.k8s.io", types: []string{"Available"}},
	{names: []string{"CustomResourceDefinition", "customresourcedefinitions", "crd", "crds"}, group: "apiextensions.k8s.io", types: []string{
		"Established", "NamesAccepted", "NonStructuralSchema", "Terminating", "KubernetesAPIApprovalPolicyConformant", "StorageMigrating",
	}},
	{names: []string{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations"}, group: "admissionregistration.k8s.io", instead: "a webhook step"},
	{names: []string{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations"}, group: "admissionregistration.k8s.io", instead: "a webhook step"},
	{names: []string{"Certificate", "certificates", "cert", "certs"}, group: "cert-manager.io", types: []string{"Ready", "Issuing"}},
	{names: []string{"CertificateRequest", "certificaterequests", "cr", "crs"}, group: "cert-manager.io", types: []string{"Ready", "Approved", "Denied", "InvalidRequest"}},
	{names: []string{"Issuer", "issuers"}, group: "cert-manager.io", types: []string{"Ready"}},
	{names: []string{"ClusterIssuer", "clusterissuers"}, group: "cert-manager.io", types: []string{"Ready"}},
	{names: []string{"ExternalSecret", "externalsecrets", "es"}, group: "external-secrets.io", types: []string{"Ready", "Deleted"}},
	{names: []string{"SecretStore", "secretstores", "ss"}, group: "external-secrets.io", types: []string{"Ready"}},
	{names: []string{"ClusterSecretStore", "clustersecretstores", "css"}, group: "external-secrets.io", types: []string{"Ready"}},
	{names: []string{"PushSecret", "pushsecrets", "ps"}, group: "external-secrets.io", types: []string{"Ready"}},
}

// byName finds the kinds by each of their names in small letters. Names that
// resources of other groups have too are of no kind without their group.
var byName = func() map[string]*conditions {
	m := map[string]*conditions{}
	for i := range known {
		for _, name := range known[i].names {
			m[strings.ToLower(name)] = &known[i]
		}
	}
	return m
}()

// kindOf returns the conditions of what a wait's resource names; nil when they are
// not known.
func kindOf(resource string) *conditions {
	kind, _, _ := strings.Cut(resource, "/")
	kind, group, qualified := strings.Cut(strings.ToLower(kind), ".")
	c := byName[kind]
	if c == nil || qualified && group != c.group && !strings.HasSuffix(group, "."+c.group) {
		return nil
	}
	return c
}

// statuses are those of a condition of Kubernetes.
var statuses = []string{"True", "False", "Unknown"}

func checkWaits(p *pass) {
	p.each(func(s *plan.Step) {
		if s.Wait == nil {
			return
		}
		cond, err := s.Wait.Condition()
		kind := kindOf(s.Wait.Resource)
		if err != nil || kind == nil || cond.Type != plan.ConditionStatus {
			return
		}
		if kind.has(cond.Name) {
			if !slices.ContainsFunc(statuses, func(s string) bool { return strings.EqualFold(s, cond.Value) }) {
				p.add(finding.Error, s, locationOf(s, "wait", "for"), "write condition="+cond.Name+", or =False", "a condition is True, False or Unknown, never %q, so the step waits until its time is over", cond.Value)
			}
			return
		}
		// Resources of another group may have the same short name.
		severity := finding.Error
		if strings.Contains(kind.group, ".io") && !strings.HasSuffix(kind.group, "k8s.io") && !strings.Contains(s.Wait.Resource, ".") {
			severity = finding.Warning
		}
		p.add(severity, s, locationOf(s, "wait", "for"), kind.hint(), "%s never has the condition %q, so the step waits until its time is over",
			article(kind.names[0]), cond.Name)
	})
}

// has reports whether objects of the kind may have a condition.
func (c *conditions) has(name string) bool {
	same := func(t string) bool { return strings.EqualFold(t, name) }
	switch {
	case slices.ContainsFunc(c.types, same):
		return true
	case !c.open:
		return false
	}
	for _, other := range known {
		if slices.ContainsFunc(other.types, same) {
			return false // it was meant for another kind
		}
	}
	return true
}

func (c *conditions) hint() string {
	switch {
	case c.instead != "":
		return "wait for " + c.instead
	case len(c.types) == 1:
		return "it has condition=" + c.types[0]
	}
	return fmt.Sprintf("it has %s and %s", strings.Join(c.types[:len(c.types)-1], ", "), c.types[len(c.types)-1])
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "AEIO") {
		return "an " + kind
	}
	return "a " + kind
}
