package export

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// Where pods have the plan's files, and how large these may be: a ConfigMap has at most
// 1 MiB, base64 a third of which (k8s.io/api/core/v1/types.go, MaxSecretSize).
const (
	mountPath  = "/fleet"
	bundleKey  = "bundle.tgz"
	rolloutKey = "rollout.json.gz"
	maxBundle  = 700 << 10
)

// TooLargeError says that a plan's files have no room in a ConfigMap.
type TooLargeError struct{ Bytes int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the plan's files are %d KiB, packed, and a ConfigMap has room for %d KiB", e.Bytes>>10, maxBundle>>10)
}

// Hint says what to do about it.
func (e *TooLargeError) Hint() string {
	return "take charts from a registry instead of folders beside the plan"
}

// filesName is that of the ConfigMap with the plan's files.
func (x *exporter) filesName() string { return objectName(x.name(), "files") }

// name is what objects are called.
func (x *exporter) name() string {
	if x.Rollout != nil {
		return objectName(x.Rollout.Fleet)
	}
	return objectName(x.Plan.Metadata.Name)
}

// files adds the ConfigMap that pods read, and the account that they run as.
func (x *exporter) files() error {
	data := map[string]any{bundleKey: base64.StdEncoding.EncodeToString(x.Bundle)}
	size := len(x.Bundle)
	if x.Rollout != nil {
		packed, err := pack(x.Rollout)
		if err != nil {
			return err
		}
		data[rolloutKey] = base64.StdEncoding.EncodeToString(packed)
		size += len(packed)
	}
	if size > maxBundle {
		return &TooLargeError{size}
	}
	account := x.object("v1", "ServiceAccount", x.ServiceAccount, nil)
	delete(account, "spec")
	configMap := x.object("v1", "ConfigMap", x.filesName(), nil)
	delete(configMap, "spec")
	configMap["binaryData"] = data
	x.add(account, configMap)
	if x.Rollout == nil {
		x.first("give the ServiceAccount %s/%s the rights that the plan takes: kplan rbac %s", x.Namespace, x.ServiceAccount, x.Plan.File)
		return nil
	}
	x.add(x.roles()...)
	for _, c := range x.Rollout.Clusters {
		if c.Access.Secret == nil {
			x.lost(x.inFleet("inventory"), "put its kubeconfig into a Secret", "the cluster %s is reached by a kubeconfig of this machine, which no pod has", c.Name)
		}
		if c.Access.Secret != nil && c.Access.Secret.Cluster != "" {
			x.changed(x.inFleet("inventory"), "apply the objects to that cluster", "the kubeconfig of %s is read from the cluster that the pods run in, which must be %s", c.Name, c.Access.Secret.Cluster)
		}
	}
	return nil
}

// pack is the JSON of a rollout, packed. It is the same for the same rollout.
func pack(r *fleet.Rollout) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("writing the rollout: %w", err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("packing the rollout: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing the rollout: %w", err)
	}
	return b.Bytes(), nil
}

// roles let the pods read the kubeconfigs of the rollout's clusters, and no other Secret.
func (x *exporter) roles() []map[string]any {
	names := map[string][]any{}
	var namespaces []string
	for _, c := range x.Rollout.Clusters {
		if ref := c.Access.Secret; ref != nil && !slices.Contains(names[ref.Namespace], any(ref.Name)) {
			if names[ref.Namespace] == nil {
				namespaces = append(namespaces, ref.Namespace)
			}
			names[ref.Namespace] = append(names[ref.Namespace], ref.Name)
		}
	}
	var all []map[string]any
	for _, namespace := range namespaces {
		name := objectName(x.name(), "kubeconfigs")
		role := x.object("rbac.authorization.k8s.io/v1", "Role", name, nil)
		binding := x.object("rbac.authorization.k8s.io/v1", "RoleBinding", name, nil)
		for _, o := range []map[string]any{role, binding} {
			delete(o, "spec")
			o["metadata"].(map[string]any)["namespace"] = namespace
		}
		role["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": names[namespace], "verbs": []any{"get"}}}
		binding["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
		binding["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": x.ServiceAccount, "namespace": x.Namespace}}
		all = append(all, role, binding)
	}
	return all
}

// container runs the plan: on one cluster of the fleet, whose name may be an expression of
// the engine, or on the cluster that the pod is in.
func (x *exporter) container(cluster string) map[string]any {
	args := []any{"fleet", "member", cluster, "--rollout", mountPath + "/" + rolloutKey, "--bundle", mountPath + "/" + bundleKey, "--progress", "plain"}
	if x.Rollout == nil {
		args = []any{"fleet", "member", "--bundle", mountPath + "/" + bundleKey, "--progress", "plain"}
	}
	return map[string]any{
		"name": "kplan", "image": x.Image, "args": args,
		"volumeMounts": []any{
			map[string]any{"name": "fleet", "mountPath": mountPath, "readOnly": true},
			map[string]any{"name": "tmp", "mountPath": "/tmp"},
		},
		"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
	}
}

// volumes are those that the container mounts.
func (x *exporter) volumes() []any {
	return []any{
		map[string]any{"name": "fleet", "configMap": map[string]any{"name": x.filesName()}},
		map[string]any{"name": "tmp", "emptyDir": map[string]any{}},
	}
}

// grace is how long a pod may take to stop, in seconds: as long as the longest step.
func (x *exporter) grace() int {
	longest := plan.DefaultTimeout
	for _, s := range x.Plan.Steps {
		longest = max(longest, x.Plan.StepTimeout(s))
	}
	return int(longest.Seconds())
}

// losesOfPods tells what all engines lose whose pods run kplan.
func (x *exporter) losesOfPods() {
	for _, v := range x.Plan.Variables {
		if v.Source == plan.SourceEnv || v.Sensitive && v.Source == "" {
			x.lost(x.inPlan("vars", v.Name), "read it from a Secret of the cluster (secret:), or give the pod the environment variable", "the pod has no value of the variable %s: on this machine the environment gives it", v.Name)
		}
	}
	if x.Rollout == nil {
		return
	}
	if x.Rollout.Limits.SameCause != nil {
		x.lost(x.inFleet("budget.same_cause"), "", "%s counts no failures by cause", x.target.Title)
	}
	if x.Rollout.Limits.Unreachable != nil {
		x.lost(x.inFleet("budget.unreachable"), "", "%s does not tell clusters that are out of reach from others that failed", x.target.Title)
	}
}

// clusters are the names of those of a wave that a pod can reach.
func (x *exporter) clusters(wave string) []any {
	var names []any
	for _, c := range x.Rollout.Wave(wave) {
		if c.Access.Secret != nil {
			names = append(names, c.Name)
		}
	}
	return names
}
