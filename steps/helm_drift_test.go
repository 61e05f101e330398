package steps_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// drifting is a chart with objects that are read by one list, and such that are
// written by the API server otherwise than they are rendered.
var drifting = map[string]string{
	"many.yaml": `{{ range until 12 }}---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ $.Release.Name }}-{{ . }}, labels: {app: a}}
data: {a: "1", b: "yes"}
{{ end }}`,
	"app.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, creationTimestamp: null, annotations: {}}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      nodeSelector: {no: node}
      containers:
      - {name: a, image: a, env: [{name: A, value: "1"}, {name: B, value: ""}], ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}], resources: {limits: {cpu: 0.5, memory: 1024Mi}, requests: {}}}
      - {name: b, image: b, command: [a, b], livenessProbe: {httpGet: {port: 80}}, securityContext: {}}
      volumes: [{name: v, emptyDir: {}}]
`,
	"secret.yaml": `apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {token: hidden-token}
`,
	"hook.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-hook, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
data: {a: {{ uuidv4 }}}
`,
}

// What people change of a release is told and put right without a new revision; what
// controllers set is not looked at, nor what the API server makes of a manifest.
func TestHelmStepPutsDriftRight(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, drifting)
	step := func(drift string) *run {
		out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait: none, drift: "+drift+"}\n")
		require.NoError(t, out.err)
		require.Equal(t, 1, out.execution.Step("s").Revision)
		return out
	}
	said := func(r *run) []string {
		var all []string
		for _, e := range r.of(runner.TypeLog) {
			if strings.HasPrefix(e.Message, "drift") {
				all = append(all, strings.ReplaceAll(e.Message, ns, "NS"))
			}
		}
		return all
	}
	set := lab.Clientset(t)
	by := func(manager string) metav1.PatchOptions { return metav1.PatchOptions{FieldManager: manager} }
	change := func(replicas int) {
		_, err := set.AppsV1().Deployments(ns).Patch(t.Context(), ns, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, replicas), by("kubectl"), "scale")
		require.NoError(t, err)
	}
	require.Equal(t, runner.StateSucceeded, step("correct").execution.Step("s").State)
	require.Equal(t, runner.StateUnchanged, step("correct").execution.Step("s").State)

	change(0)
	_, err := set.AppsV1().Deployments(ns).Patch(t.Context(), ns, types.StrategicMergePatchType,
		[]byte(`{"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "c", "command": ["a"]}, {"name": "a", "env": [{"name": "A", "$patch": "delete"}, {"name": "MORE", "value": "x"}]}]}}}}`), by("kubectl-edit"))
	require.NoError(t, err)
	_, err = set.CoreV1().ConfigMaps(ns).Patch(t.Context(), ns+"-3", types.MergePatchType, []byte(`{"data": {"a": "2"}, "metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`), by("kubectl-edit"))
	require.NoError(t, err)
	_, err = set.CoreV1().ConfigMaps(ns).Patch(t.Context(), ns+"-4", types.MergePatchType, []byte(`{"data": {"a": "3"}}`), by("some-operator"))
	require.NoError(t, err)
	_, err = set.CoreV1().Secrets(ns).Patch(t.Context(), ns, types.MergePatchType, []byte(`{"stringData": {"token": "another-token"}}`), by("kubectl-patch"))
	require.NoError(t, err)
	want := []string{
		`drift, left as it is: Secret/NS/NS: data.token has another value (by kubectl-patch)`,
		`drift, left as it is: ConfigMap/NS/NS-3: data.a is "2" instead of "1" (by kubectl-edit), metadata.labels["app.kubernetes.io/managed-by"] is gone, which was "Helm"`,
		`drift, left as it is: Deployment/NS/NS: spec.replicas is 0 instead of 1 (by kubectl scale, or another patch of scale), spec.template.spec.containers[name=a].env[name=A] is gone, which was {"name":"A","value":"1"}, spec.template.spec.containers[name=b].command is ["a"] instead of ["a","b"] (by kubectl-edit), spec.template.spec.containers[name=b].image is "c" instead of "b" (by kubectl-edit)`,
	}

	told := step("report")

	require.Equal(t, runner.StateUnchanged, told.execution.Step("s").State)
	require.Equal(t, want, said(told))
	require.Empty(t, said(step("ignore")))

	corrected := step("correct")

	require.Equal(t, runner.StateSucceeded, corrected.execution.Step("s").State)
	require.Contains(t, corrected.execution.Step("s").Message, ", 7 fields corrected")
	for i := range want {
		want[i] = strings.Replace(want[i], "left as it is", "put right", 1)
	}
	require.Equal(t, want, said(corrected))
	d, err := set.AppsV1().Deployments(ns).Get(t.Context(), ns, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, *d.Spec.Replicas)
	for _, c := range d.Spec.Template.Spec.Containers {
		switch c.Name {
		case "a":
			require.Len(t, c.Env, 3, "what was added is nobody's business")
		case "b":
			require.Equal(t, []string{"a", "b"}, c.Command)
		}
	}
	left, err := set.CoreV1().ConfigMaps(ns).Get(t.Context(), ns+"-4", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "3", left.Data["a"])
	require.Equal(t, runner.StateUnchanged, step("correct").execution.Step("s").State)
}

// What somebody has put into a field is not told where a sensitive value belongs: it may
// be that of yesterday, which nobody knows to be one.
func TestDriftOfASensitiveFieldIsNotTold(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	list := "\n- name: app\n  helm: {chart: " + chartOf(t, nil) + ", release: NS, namespace: NS, values: {data: {url: \"db://${{ vars.password }}@db\", size: \"1\"}}}\n" +
		"vars: {password: {default: today-pass, sensitive: true}}\n"
	require.NoError(t, runPlan(t, lab, ns, list).err)
	_, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Patch(t.Context(), ns+"-settings", types.MergePatchType,
		[]byte(`{"data":{"url":"db://yesterdays-pass@db","size":"2"}}`), metav1.PatchOptions{FieldManager: "kubectl-patch"})
	require.NoError(t, err)
	p := planOf(t, lab, ns, list)
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()
	health, err := s.Health(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, []string{`data.size is "2" instead of "1" (by kubectl-patch)`, "data.url has another value (by kubectl-patch)"}, health[0].Drift[0].Fields)

	out := runPlan(t, lab, ns, list)

	require.NoError(t, out.err)
	require.Equal(t, "db://today-pass@db", settings(t, lab, ns)["url"])
	var logs strings.Builder
	for _, e := range out.of(runner.TypeLog) {
		logs.WriteString(e.Message + "\n")
	}
	require.Contains(t, logs.String(), `data.size is "2" instead of "1" (by kubectl-patch), data.url has another value (by kubectl-patch)`)
	require.NotContains(t, logs.String(), "yesterdays")
}
