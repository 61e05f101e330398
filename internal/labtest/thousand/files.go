package thousand

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// planText is a plan with a step of each kind that a fleet meets: a chart, an apply, one
// whose request a webhook may hold, and a wait. What it makes is in the cluster's namespace.
const planText = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: thousand}
state: {namespace: "${{ vars.namespace }}"}
vars:
  namespace: {type: string}
  hold: {type: string, default: 5m}
clusters: {target: {context: the fleet takes its place}}
defaults: {cluster: target, webhooks: {hold_timeout: "${{ vars.hold }}"}, retry: {install_retries: 1}}
steps:
- name: chart
  helm: {chart: ./chart, release: tiny, namespace: "${{ vars.namespace }}"}
- name: objects
  apply: {namespace: "${{ vars.namespace }}", objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}}]}
- name: judged
  needs: [chart, objects]
  apply: {namespace: "${{ vars.namespace }}", objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: judged}}]}
- name: ready
  needs: [judged]
  timeout: 20s
  wait: {resource: configmap/judged, namespace: "${{ vars.namespace }}", for: create}
`

// WritePlan writes the plan that fits the clusters, and its chart, and returns the path of the
// plan's file.
func WritePlan(t testing.TB, dir string) string {
	t.Helper()
	for name, text := range map[string]string{
		"plan.yaml":                planText,
		"chart/Chart.yaml":         "apiVersion: v2\nname: tiny\nversion: 0.1.0\n",
		"chart/templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-the-chart}\ndata: {release: {{ .Release.Name }}}\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return filepath.Join(dir, "plan.yaml")
}

// WriteFleet writes a fleet file beside the plan, which lists the clusters: their kubeconfigs
// are in Secrets of the lab. More is the file's waves, and what else it has. It returns the
// path. Clusters that are named are all that is listed.
func (f *Fleet) WriteFleet(t testing.TB, dir, more string, only ...*Cluster) string {
	t.Helper()
	WritePlan(t, dir)
	if len(only) == 0 {
		only = f.Clusters
	}
	if f.namespace == "" {
		f.keep(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: kplan.dev/v1alpha1
kind: Fleet
metadata: {name: thousand}
plan: {file: plan.yaml, cluster: target}
vars: {namespace: "${{ cluster.labels.namespace }}"}
%s
inventory:
- list:
`, strings.TrimSpace(more))
	for _, c := range only {
		fmt.Fprintf(&b, "  - {name: %s, labels: {namespace: %s}, kubeconfig_secret: {namespace: %s, name: %[1]s}}\n", c.Name, c.Namespace, f.namespace)
	}
	path := filepath.Join(dir, "fleet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// keep puts the kubeconfigs of all clusters into Secrets.
func (f *Fleet) keep(t testing.TB) {
	t.Helper()
	set := f.lab.Clientset(t)
	f.namespace = f.prefix + "mgmt"
	_, err := set.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = set.CoreV1().Namespaces().Delete(context.Background(), f.namespace, metav1.DeleteOptions{})
	})
	f.each(t, func(ctx context.Context, c *Cluster) error {
		_, err := set.CoreV1().Secrets(f.namespace).Create(ctx, c.secret(), metav1.CreateOptions{})
		return err
	})
}

// secret has the cluster's kubeconfig.
func (c *Cluster) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.fleet.namespace, Name: c.Name}, Data: map[string][]byte{"value": c.Kubeconfig()}}
}

// Publish writes the cluster's present kubeconfig into its Secret.
func (c *Cluster) Publish(t testing.TB) {
	t.Helper()
	_, err := c.fleet.lab.Clientset(t).CoreV1().Secrets(c.fleet.namespace).Update(context.WithoutCancel(t.Context()), c.secret(), metav1.UpdateOptions{})
	require.NoError(t, err)
}
