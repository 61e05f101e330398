package steps_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook"
)

// hooksOf are a run's events of hooks, a line each.
func (r *run) hooksOf(ns string) []string {
	var lines []string
	for _, e := range r.of(runner.TypeHook) {
		lines = append(lines, fmt.Sprintf("%s %s %d %s", e.Hook.Event, strings.Replace(e.Object, "/"+ns+"/", "/", 1), e.Hook.Weight, e.Hook.State))
	}
	return lines
}

const severalHooks = `
{{- define "job" }}
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .name }}, annotations: {helm.sh/hook: "{{ .events }}", helm.sh/hook-weight: "{{ .weight }}"}}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, serviceAccountName: hooks, containers: [{name: c, image: ` + labtest.OperatorImage + `, args: [--help]}]}}
---
{{- end }}
apiVersion: v1
kind: ServiceAccount
metadata: {name: hooks, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5"}}
---
{{- template "job" dict "name" "around" "events" "pre-install, post-install" "weight" 0 }}
{{- template "job" dict "name" "after" "events" "post-install,post-upgrade,post-delete" "weight" 3 }}
`

// Each hook is told of with its event and weight, in the order in which Helm runs them.
func TestHooksAreToldOf(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	chart := chartOf(t, map[string]string{"hooks.yaml": severalHooks})
	install := func(values string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  helm: {chart: "+chart+", release: NS, namespace: NS, values: {data: {a: "+values+"}}}\n")
	}
	out := install("b")
	require.NoError(t, out.err)
	require.Equal(t, []string{
		"pre-install ServiceAccount/hooks -5 running", "pre-install ServiceAccount/hooks -5 succeeded",
		"pre-install Job/around 0 running", "pre-install Job/around 0 succeeded",
		"post-install Job/around 0 running", "post-install Job/around 0 succeeded",
		"post-install Job/after 3 running", "post-install Job/after 3 succeeded",
	}, out.hooksOf(ns))
	require.Len(t, out.execution.Step("s").Hooks, 4)

	out = install("c")
	require.NoError(t, out.err)
	require.Equal(t, []string{
		"pre-upgrade ServiceAccount/hooks -5 running", "pre-upgrade ServiceAccount/hooks -5 succeeded",
		"post-upgrade Job/after 3 running", "post-upgrade Job/after 3 succeeded",
	}, out.hooksOf(ns))

	out = runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  delete: {release: NS, namespace: NS}\n")
	require.NoError(t, out.err)
	require.Equal(t, []string{"post-delete Job/after 3 running", "post-delete Job/after 3 succeeded"}, out.hooksOf(ns))
}

// failingHook is a Job that is a hook, with a part of its spec and of its pod's.
func failingHook(job, pod, container string) map[string]string {
	return map[string]string{"hook.yaml": `
apiVersion: batch/v1
kind: Job
metadata: {name: hook, annotations: {helm.sh/hook: pre-install}}
spec:
  backoffLimit: 0
  ` + job + `
  template:
    spec:
      restartPolicy: Never
      ` + pod + `
      containers: [{name: c, ` + container + `}]
`}
}

// A hook that can never succeed fails its step long before the timeout, with the reason.
func TestHooksThatCannotSucceed(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	const fine = "image: " + labtest.OperatorImage
	for name, tc := range map[string]struct {
		chart  map[string]string
		policy string // of pods in the namespace
		says   string
		hint   string
	}{
		"a name that is none":               {failingHook("", "", `image: "NO:::NAME"`), "", "pod hook-[^ ]+ is in InvalidImageName", "not well formed"},
		"an image that must not be fetched": {failingHook("", "", `image: "kplan.dev/nowhere:1", imagePullPolicy: Never`), "", "pod hook-[^ ]+ is in ErrImageNeverPull", "imagePullPolicy: Never"},
		"a service account that is missing": {failingHook("", "serviceAccountName: absent", fine), "", `its pods cannot be made: .*serviceaccount "absent" not found`, "kubectl describe job/hook"},
		"a policy that forbids its pods":    {failingHook("", "hostNetwork: true", fine), "restricted", "its pods cannot be made: .*violates PodSecurity", "kubectl describe job/hook"},
		"a program that fails":              {failingHook("", "", fine+", args: [--no-such-flag]"), "", `(?s)backoff limit.*said last:.*flag provided but not defined`, ""},
		"a program that takes too long":     {failingHook("activeDeadlineSeconds: 3", "", fine), "", "Failed is True: Job was active longer than specified deadline", ""},
		"a program that cannot be started":  {failingHook("", "", fine+", command: [/nope]"), "", `could not be started: exec: "/nope"`, ""},
		"a chart that is in no repository":  {failingHook("", "", fine+`, env: [{name: LAB_JOB, value: verify}, {name: LAB_CHART, value: "minio:14.1.2"}, {name: LAB_MISSING, value: "minio:14.1.2"}]`), "", `(?s)^step "s": chart minio:14.1.2 is not in oci://r.example/charts: .*said last:.*minio:14.1.2 does not exist or cannot be pulled`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			if tc.policy != "" {
				label := []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "` + tc.policy + `"}}}`)
				_, err := lab.Clientset(t).CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, label, metav1.PatchOptions{})
				require.NoError(t, err)
			}
			out := runPlan(t, lab, ns, "\n- name: s\n  timeout: 5m\n  helm: {chart: "+chartOf(t, tc.chart)+`, release: NS, namespace: NS, values: {repo: {url: "oci://r.example/charts"}}}`+"\n")
			require.Regexp(t, tc.says, out.err.Error())
			require.Contains(t, runner.HintOf(out.err), tc.hint)
			require.Less(t, out.execution.Elapsed(), time.Minute)
			hooks := out.hooksOf(ns)
			require.Equal(t, "pre-install Job/hook 0 failed", hooks[len(hooks)-1])
			require.NotEmpty(t, out.execution.Step("s").Hooks[0].Error)
		})
	}
}

// refusals are what registries and their clients say when a chart cannot be had.
var refusals = map[string]string{
	"refused":      `Error: failed to do request: Head "https://r.example/v2/charts/minio/manifests/14.1.2": dial tcp 10.96.0.9:443: connect: connection refused`,
	"unauthorized": `Error: GET "https://r.example/v2/": response status code 401: unauthorized`,
	"missing":      `Error: r.example/charts/minio:14.1.2: not found; the server could not find the requested resource`,
}

// What a hook's program says of a registry that refuses it is no failure of a webhook:
// nothing is held for it, and a plan that retries these only does not retry it.
func TestRegistryRefusalInAHookIsNoWebhooks(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	for name, text := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			chart := chartOf(t, failingHook("", "", fmt.Sprintf("image: %s, args: [%q]", labtest.OperatorImage, "--"+text)))
			out := runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  retry: {install_retries: 2, retry_delay_seconds: 0, on: [webhook]}\n  helm: {chart: "+chart+", release: NS, namespace: NS}\n")
			requireNoWebhooks(t, out)
			require.Equal(t, []plan.RetryOn{plan.RetryNotReady}, runner.ClassesOf(out.err))
		})
	}
}

// requireNoWebhooks wants a step to have failed, once, for something that is no webhook's.
func requireNoWebhooks(t *testing.T, out *run) {
	t.Helper()
	require.Error(t, out.err)
	require.Empty(t, out.of(runner.TypeHeld))
	require.Equal(t, 1, out.execution.Step("s").Attempt, "it is not retried as a webhook's")
	require.NotContains(t, runner.ClassesOf(out.err), plan.RetryWebhook)
	for _, f := range webhook.Faults(out.err) {
		require.Equal(t, webhook.None, f.Class, out.err)
	}
	require.NotContains(t, out.err.Error(), "webhook")
	require.NotContains(t, runner.HintOf(out.err), "webhook")
}

// So is what a registry says to kplan itself, when it fetches the chart.
func TestRegistryRefusalOfAChartIsNoWebhooks(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	answer := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", code) }))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, registry := range map[string]string{
		"refused": strings.TrimPrefix(gone.URL, "http://"), "unauthorized": answer(http.StatusUnauthorized),
		"forbidden": answer(http.StatusForbidden), "missing": answer(http.StatusNotFound),
	} {
		t.Run(name, func(t *testing.T) {
			out := runPlan(t, lab, lab.Namespace(t), "\n- name: s\n  timeout: 2m\n  retry: {install_retries: 2, retry_delay_seconds: 0, on: [webhook]}\n"+
				"  helm: {chart: \"oci://"+registry+"/charts/minio\", version: 14.1.2, plain_http: true, release: NS, namespace: NS}\n")
			requireNoWebhooks(t, out)
		})
	}
}
