package export

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// Where pods have the plan's files, and how large these may be: a ConfigMap has at most
// 1 MiB, base64 a third of which (k8s.io/api/core/v1/types.go, MaxSecretSize).
const (
	mountPath  = "/fleet"
	bundleKey  = "bundle.tgz"
	rolloutKey = "rollout.json.gz"
	varsKey    = "vars.yaml"
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
	configMap := x.object("v1", "ConfigMap", x.filesName(), nil)
	switch vars, err := x.vars(); {
	case err != nil:
		return err
	case vars != "":
		configMap["data"] = map[string]any{varsKey: vars}
		size += len(vars)
	}
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
	configMap["binaryData"] = data
	x.add(x.object("v1", "ServiceAccount", x.ServiceAccount, nil), configMap)
	if x.Rollout == nil {
		x.first("give the ServiceAccount the rights that the plan takes: kplan rbac %s --service-account %s/%s | kubectl apply -f -", x.Plan.File, x.Namespace, x.ServiceAccount)
		return nil
	}
	x.add(x.roles()...)
	for _, c := range x.Rollout.Clusters {
		if c.Access.Secret == nil {
			x.lost(x.inFleet("inventory"), "put its kubeconfig into a Secret", "the cluster %s is left out: it is reached by a kubeconfig of this machine, which no pod has", c.Name)
		}
		if c.Access.Secret != nil && c.Access.Secret.Cluster != "" {
			x.first("apply the objects to the cluster %s: pods read the kubeconfigs in Secrets of the cluster that they run in", c.Access.Secret.Cluster)
		}
	}
	return nil
}

// vars are the values of the plan's variables that come from this machine, as a var file: not
// those that are sensitive. Of a fleet the rollout has them.
func (x *exporter) vars() (string, error) {
	if x.Rollout != nil {
		return "", nil
	}
	all := map[string]any{}
	for _, v := range x.Plan.Variables {
		switch v.Source {
		case plan.SourceSet, plan.SourceVarFile, plan.SourceEnv:
			if v.Sensitive || v.Deferred {
				continue // see lostInPods
			}
			text, err := yaml.Marshal(v.Value)
			if err != nil {
				return "", fmt.Errorf("writing the variable %s: %w", v.Name, err)
			}
			if x.Plan.Sensitive.Text(string(text)) != string(text) {
				x.lost(x.inPlan("vars", v.Name), "", "pods have no value of the variable %s: there is something sensitive in it", v.Name)
				continue
			}
			all[v.Name] = v.Value
		default:
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("writing the variables: %w", err)
	}
	return string(text), nil
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
		if c.Access.Secret == nil {
			continue
		}
		namespace, name := cmp.Or(c.Access.Secret.Namespace, x.Namespace), any(c.Access.Secret.Name)
		if names[namespace] == nil {
			namespaces = append(namespaces, namespace)
		}
		if !slices.Contains(names[namespace], name) {
			names[namespace] = append(names[namespace], name)
		}
	}
	var all []map[string]any
	for _, namespace := range namespaces {
		name := objectName(x.name(), "kubeconfigs")
		role := in(namespace, x.object("rbac.authorization.k8s.io/v1", "Role", name, nil))
		binding := in(namespace, x.object("rbac.authorization.k8s.io/v1", "RoleBinding", name, nil))
		role["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": names[namespace], "verbs": []any{"get"}}}
		binding["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
		binding["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": x.ServiceAccount, "namespace": x.Namespace}}
		all = append(all, role, binding)
	}
	return all
}

// container runs the plan: with arguments that say on which cluster of the fleet, which may
// be expressions of the engine, or without on the cluster that the pod is in.
func (x *exporter) container(cluster ...any) map[string]any {
	args := []any{"fleet", "member"}
	if x.Rollout != nil {
		args = append(append(args, cluster...), "--rollout", mountPath+"/"+rolloutKey)
	} else {
		args = append(args, "--digest", x.Digest)
		if vars, _ := x.vars(); vars != "" {
			args = append(args, "--var-file", mountPath+"/"+varsKey)
		}
	}
	args = append(args, "--bundle", mountPath+"/"+bundleKey)
	if x.HelmEngine != "" {
		args = append(args, "--helm-engine", string(x.HelmEngine))
	}
	return map[string]any{
		"name": "kplan", "image": x.Image, "args": append(args, "--progress", "plain"),
		"env": []any{map[string]any{"name": "HOME", "value": "/tmp"}, map[string]any{"name": "TMPDIR", "value": "/tmp"}},
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

// Reachable are the clusters of a wave whose kubeconfigs pods can read, in their order.
func Reachable(r *fleet.Rollout, wave string) []fleet.Cluster {
	return slices.DeleteFunc(r.Wave(wave), func(c fleet.Cluster) bool { return c.Access.Secret == nil })
}

// clusters are the names of those of a wave that a pod can reach.
func (x *exporter) clusters(wave string) []any {
	var names []any
	for _, c := range Reachable(x.Rollout, wave) {
		names = append(names, c.Name)
	}
	return names
}
