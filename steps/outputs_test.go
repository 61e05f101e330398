package steps_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/preflight"
)

// Outputs are what the objects have once the step is done. Those of Secrets are
// not shown.
func TestStepReadsOutputs(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)

	out := runPlan(t, lab, lab.Namespace(t), `
- name: objects
  apply:
    namespace: NS
    objects:
    - {apiVersion: v1, kind: Service, metadata: {name: gateway}, spec: {ports: [{port: 80}]}}
    - {apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {token: s3cr3t-pass}}
  outputs:
    port: {resource: svc/gateway, namespace: NS, jsonpath: "{.spec.ports[0].port}"}
    type: {resource: services/gateway, namespace: NS, cel: object.spec.type}
    token: {resource: secret/token, namespace: NS, jsonpath: "{.data.token}"}
    shown: {resource: secret/token, namespace: NS, jsonpath: "{.data.token}", sensitive: false}
`)

	require.NoError(t, out.err)
	told := out.of(runner.TypeOutputs)
	require.Len(t, told, 1)
	require.EqualValues(t, 80, told[0].Outputs["port"])
	require.Equal(t, "ClusterIP", told[0].Outputs["type"])
	require.NotEqual(t, "s3cr3t-pass", told[0].Outputs["token"])
}

// An output that names no namespace is read in the one that the step names.
func TestStepReadsOutputsInItsNamespace(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	own := lab.Namespace(t)

	out := runPlan(t, lab, lab.Namespace(t), `
- name: objects
  apply:
    namespace: `+own+`
    objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: green}}]
  outputs:
    colour: {resource: configmap/settings, jsonpath: "{.data.colour}"}
- name: there
  wait: {resource: configmap/kube-root-ca.crt, namespace: `+own+`, for: create}
  outputs:
    name: {resource: configmap/kube-root-ca.crt, cel: object.metadata.namespace}
`)

	require.NoError(t, out.err)
	require.Equal(t, "green", out.execution.Step("objects").Outputs["colour"])
	require.Equal(t, own, out.execution.Step("there").Outputs["name"])
}

// A value that is not there is the step's failure, and another attempt may find it.
func TestStepMissesAnOutput(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)

	out := runPlan(t, lab, ns, `
- name: objects
  retry: {install_retries: 2, retry_delay_seconds: 0.1}
  apply: {objects: [{apiVersion: v1, kind: Service, metadata: {name: gateway, namespace: NS}, spec: {ports: [{port: 80}]}}]}
  outputs:
    ip: {resource: svc/gateway, namespace: NS, jsonpath: "{.status.loadBalancer.ingress[0].ip}"}
`)

	require.EqualError(t, out.err, `step "objects": output "ip": svc/gateway: {.status.loadBalancer.ingress[0].ip} gives nothing; .status.loadBalancer is empty`)
	require.Equal(t, 2, out.execution.Step("objects").Attempt)
}

func loadPlan(t *testing.T, text string) *plan.Plan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: test}\n"+text), 0o600))
	p, err := load.File(file, load.Options{})
	require.NoError(t, err)
	return p
}

// Values that steps ask a cluster for are read once a run.
func TestReadInputs(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	secrets := lab.Clientset(t).CoreV1().Secrets(ns)
	_, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "registry"}, StringData: map[string]string{"token": "s3cr3t-pass"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	p := loadPlan(t, "steps: [{name: w, wait: {resource: cm/x, for: create}}]")
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	ask := plan.Input{From: plan.FromSecret, Key: plan.KeyRef{Namespace: ns, Name: "registry", Key: "token"}, Sensitive: true}

	known, err := s.ReadInputs(t.Context(), []plan.Input{ask})
	require.NoError(t, err)
	require.Equal(t, plan.Inputs{ask: "s3cr3t-pass"}, known)
	require.Equal(t, "(sensitive)", p.Sensitive.Text("s3cr3t-pass"))

	require.NoError(t, secrets.Delete(t.Context(), "registry", metav1.DeleteOptions{}))
	again, err := s.ReadInputs(t.Context(), []plan.Input{ask})
	require.NoError(t, err)
	require.Equal(t, known, again)

	ask.Key.Name = "other"
	_, err = s.ReadInputs(t.Context(), []plan.Input{ask})
	require.EqualError(t, err, "Secret "+ns+"/other does not exist")
}

// What the cluster has to say of a plan is told at once, and nothing is written.
func TestCheck(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	p := loadPlan(t, `
clusters: {later: {kubeconfig_secret: {namespace: `+ns+`, name: later}}}
steps:
- name: definitions
  apply: {objects: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: stores.example.io}, spec: {
    group: example.io, scope: Namespaced, names: {kind: Store, plural: stores, singular: store},
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}]}
- name: good
  needs: [definitions]
  apply: {namespace: `+ns+`, objects: [{apiVersion: example.io/v1, kind: Store, metadata: {name: s}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}
- {name: ready, needs: [good], wait: {resource: store/s, for: condition=Ready}}
- {name: early, apply: {namespace: `+ns+`, objects: [{apiVersion: example.io/v1, kind: Store, metadata: {name: s}}]}}
- {name: version, needs: [definitions], apply: {namespace: `+ns+`, objects: [{apiVersion: example.io/v2, kind: Store, metadata: {name: s}}]}}
- name: operator
  apply: {namespace: `+ns+`, objects: [{apiVersion: v1, kind: Pod, metadata: {name: o}, spec: {containers: [{name: o, image: o}]}}]}
- {name: operated, needs: [operator], apply: {namespace: `+ns+`, objects: [{apiVersion: example.io/v1, kind: Late, metadata: {name: l}}]}}
- {name: watches, needs: [operator], wait: {resource: lates/l, for: condition=Ready}}
- {name: nowhere, apply: {namespace: no-such-namespace, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}}
- {name: refused, apply: {namespace: `+ns+`, objects: [{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 300.0.0.1, ports: [{port: 80}]}}]}}
- {name: waits, wait: {resource: unicorns/x, for: condition=Ready}}
- {name: there, cluster: later, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}}
`)

	found, err := preflight.Check(t.Context(), p, lab.Flags(), nil, "kplan-test")

	require.NoError(t, err)
	rules := map[string]string{}
	for _, f := range found {
		rules[f.Step] = f.Rule
	}
	require.Equal(t, map[string]string{
		"early": preflight.Unchecked, "version": preflight.Kind, "operated": preflight.Unchecked, "watches": preflight.Unchecked, "nowhere": preflight.Namespace, "refused": preflight.Refused, "waits": preflight.Kind, "there": preflight.Unchecked,
	}, rules, "%v", found)
	for _, f := range found {
		switch f.Step {
		case "early":
			require.Equal(t, `the step "definitions" brings it: add it to needs`, f.Hint)
		case "version":
			require.Contains(t, f.Message, `step "definitions" brings it in v1 only`)
		case "operated":
			require.Contains(t, f.Message, `step "operator" may when it runs`)
		}
	}
	_, err = lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "c", metav1.GetOptions{})
	require.Error(t, err, "nothing was written")
}

// Helm installs no object that is somebody else's: the check finds what the run
// would fail on.
func TestCheckFindsWhatOtherReleasesOwn(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{
		"shared.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}\n",
		"late.yaml":   "{{ if .Values.more }}{apiVersion: v1, kind: ConfigMap, metadata: {name: by-hand}}{{ end }}\n",
		"hook.yaml":   "{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: before-hook-creation}}}\n",
	})
	step := func(release, values string) string {
		return "\n- name: s\n  helm: {chart: " + dir + ", release: " + release + ", namespace: " + ns + ", values: " + values + "}\n"
	}
	look := func(list string) []string {
		found, err := preflight.Check(t.Context(), loadPlan(t, "\nsteps:"+list), lab.Flags(), nil, "kplan-test")
		require.NoError(t, err)
		var said []string
		for _, f := range found {
			require.NotEmpty(t, f.Hint)
			said = append(said, string(f.Rule)+": "+f.Message)
		}
		return said
	}
	require.NoError(t, runPlan(t, lab, ns, step("one", "{}")).err)
	_, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.Empty(t, look(step("one", "{data: {more: data}}")), "its own objects")

	require.Equal(t, []string{
		"cluster-owner: ConfigMap/" + ns + "/shared exists and belongs to Helm release " + ns + "/one: the release " + ns + "/two cannot have it",
	}, look(step("two", "{}")))
	require.ErrorContains(t, runPlan(t, lab, ns, step("two", "{}")).err, "cannot be imported")

	require.Equal(t, []string{
		"cluster-owner: ConfigMap/" + ns + "/by-hand exists and belongs to no Helm release: the release " + ns + "/one cannot have it",
	}, look(step("one", "{more: true}")), "an upgrade")
	require.ErrorContains(t, runPlan(t, lab, ns, step("one", "{more: true}")).err, "cannot be imported")
}
