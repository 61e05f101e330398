package steps_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// chartOf writes a chart with one ConfigMap, whose data are the values, and with
// more templates, by name.
func chartOf(t *testing.T, templates map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "templates"), 0o755))
	files := map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: settings\nversion: 0.1.0\n",
		"values.yaml": "data: {from: chart, kept: chart}\n",
		"templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-settings}\n" +
			"data: {{ toYaml .Values.data | nindent 2 }}\n",
	}
	for name, text := range templates {
		files["templates/"+name] = text
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func settings(t *testing.T, lab *labtest.Lab, ns string) map[string]string {
	t.Helper()
	m, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), ns+"-settings", metav1.GetOptions{})
	require.NoError(t, err)
	return m.Data
}

// The plan's values win over files, which win over the chart's; null takes the
// chart's away.
func TestHelmStepMergesValues(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, nil)
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte("data: {from: file, file: file}\n"), 0o600))

	out := runPlan(t, lab, ns, `
- name: settings
  helm: {chart: `+dir+`, release: NS, namespace: NS, values_files: [`+file+`], values: {data: {from: plan, kept: null}}}
`)

	require.NoError(t, out.err)
	require.Equal(t, map[string]string{"from": "plan", "file": "file"}, settings(t, lab, ns))
}

func TestHelmStepUpgradesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, nil)
	step := func(values string) *runner.Step {
		out := runPlan(t, lab, ns, "\n- name: settings\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: "+values+"}\n")
		require.NoError(t, out.err)
		return out.execution.Step("settings")
	}

	first := step("{data: {size: one}}")
	require.Equal(t, runner.StateSucceeded, first.State)
	require.Equal(t, 1, first.Revision)

	again := step("{data: {size: one}}")
	require.Equal(t, runner.StateUnchanged, again.State)
	require.Equal(t, 1, again.Revision)

	values := step("{data: {size: two}}")
	require.Equal(t, runner.StateSucceeded, values.State)
	require.Equal(t, 2, values.Revision)
	require.Equal(t, "two", settings(t, lab, ns)["size"])

	template := filepath.Join(dir, "templates", "more.yaml")
	require.NoError(t, os.WriteFile(template, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"), 0o600))
	chart := step("{data: {size: two}}")
	require.Equal(t, runner.StateSucceeded, chart.State, "a changed template is an upgrade, whatever the version says")
	require.Equal(t, 3, chart.Revision)
}

func TestHelmStepAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		onFailure string
		deployed  bool // a good revision was there before
		revisions []release.Status
		data      string
	}{
		"the first install is kept":             {"keep", false, []release.Status{release.StatusFailed}, "bad"},
		"the first install is uninstalled":      {"uninstall", false, nil, ""},
		"rollback leaves a first install alone": {"rollback", false, []release.Status{release.StatusFailed}, "bad"},
		"an upgrade is rolled back": {
			"rollback", true,
			[]release.Status{release.StatusSuperseded, release.StatusFailed, release.StatusDeployed},
			"good",
		},
		"uninstall leaves an upgrade alone": {"uninstall", true, []release.Status{release.StatusDeployed, release.StatusFailed}, "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			dir := chartOf(t, brokenService)
			step := func(values string) error {
				return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, on_failure: "+tc.onFailure+", values: "+values+"}\n").err
			}
			if tc.deployed {
				require.NoError(t, step("{data: {is: good}}"))
			}

			err := step("{broken: true, data: {is: bad}}")

			require.ErrorContains(t, err, "300.0.0.1")
			history, herr := helmOf(t, lab, ns).Releases.History(ns)
			var states []release.Status
			if herr == nil {
				for _, r := range history {
					states = append(states, r.Info.Status)
				}
			}
			require.ElementsMatch(t, tc.revisions, states)
			m, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), ns+"-settings", metav1.GetOptions{})
			if tc.data == "" {
				require.True(t, apierrors.IsNotFound(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.data, m.Data["is"])
		})
	}
}

// Hooks run to their end on a real node, and a failed one fails the step with
// its Job's name.
func TestHelmStepRunsHooks(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	job := func(args string) map[string]string {
		return map[string]string{"hook.yaml": `
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: before-hook-creation}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: hook, image: ` + labtest.OperatorImage + `, args: ` + args + `}]
`}
	}
	step := func(ns, args string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 3m\n  helm: {chart: "+chartOf(t, job(args))+", release: NS, namespace: NS}\n")
	}

	good := lab.Namespace(t)
	out := step(good, "[--help]")
	require.NoError(t, out.err)
	done, err := lab.Clientset(t).BatchV1().Jobs(good).Get(t.Context(), "hook", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Status.Succeeded)

	bad := step(lab.Namespace(t), "[--no-such-flag]")
	require.ErrorContains(t, bad.err, "hook")
	require.ErrorContains(t, bad.err, "Job has reached the specified backoff limit")
}

// A step that creates its namespace does so once.
func TestHelmStepCreatesItsNamespace(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t) + "-own"
	t.Cleanup(func() {
		_ = lab.Clientset(t).CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{})
	})

	out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+chartOf(t, nil)+", release: NS, namespace: NS, create_namespace: true}\n")

	require.NoError(t, out.err)
	got, err := lab.Clientset(t).CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.NamespaceActive, got.Status.Phase)
}

// Objects that were removed by hand come back as they were rendered, whatever
// the step waits for; a release that is whole is left alone.
func TestHelmStepBringsBackWhatIsGone(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"none", "ready"} {
		t.Run("wait "+wait, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			dir := chartOf(t, map[string]string{
				"random.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: random}\ndata: {id: {{ randAlphaNum 12 }}}\n",
				"job.yaml": `{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {ttlSecondsAfterFinished: 0, suspend: true,
  template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}}`,
			})
			step := func() *run {
				return runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait: "+wait+"}\n")
			}
			require.NoError(t, step().err)
			maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
			made, err := maps.Get(t.Context(), "random", metav1.GetOptions{})
			require.NoError(t, err)
			require.NoError(t, maps.Delete(t.Context(), ns+"-settings", metav1.DeleteOptions{}))

			again := step()

			require.NoError(t, again.err)
			require.Equal(t, runner.StateSucceeded, again.execution.Step("s").State)
			require.Equal(t, 2, again.execution.Step("s").Revision)
			require.True(t, logged(again, "gone from the cluster", "ConfigMap/"+ns+"/"+ns+"-settings"))
			require.Equal(t, "chart", settings(t, lab, ns)["kept"])
			kept, err := maps.Get(t.Context(), "random", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, made.Data, kept.Data, "nothing was rendered anew")

			now := metav1.DeletePropagationBackground
			require.NoError(t, lab.Clientset(t).BatchV1().Jobs(ns).Delete(t.Context(), "once", metav1.DeleteOptions{PropagationPolicy: &now}))
			require.Equal(t, runner.StateUnchanged, step().execution.Step("s").State, "a Job that removes itself is not missed")
		})
	}
}

// With wait none a step does not wait for hooks, with hooks it does.
func TestHelmStepWaitsForHooksAsItSays(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t) // nobody runs its Jobs
	hook := map[string]string{"hook.yaml": `
apiVersion: batch/v1
kind: Job
metadata: {name: hook, annotations: {helm.sh/hook: post-install}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}
`}
	step := func(ns, wait, timeout string) error {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: "+timeout+"\n  helm: {chart: "+chartOf(t, hook)+", release: NS, namespace: NS, wait: "+wait+"}\n").err
	}

	none := lab.Namespace(t)
	require.NoError(t, step(none, "none", "1m"))
	_, err := lab.Clientset(t).BatchV1().Jobs(none).Get(t.Context(), "hook", metav1.GetOptions{})
	require.NoError(t, err)

	var timeout *runner.TimeoutError
	require.ErrorAs(t, step(lab.Namespace(t), "hooks", "15s"), &timeout)
	require.ErrorContains(t, timeout, "hook")
}
