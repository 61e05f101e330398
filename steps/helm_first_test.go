package steps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// hookOf is a hook of a chart. Jobs are suspended, and so done at once: nobody
// runs them on this lab.
func hookOf(kind, name, events, policies string) string {
	text := "---\nmetadata: {name: " + name + `, annotations: {helm.sh/hook: "` + events + `"`
	if policies != "" {
		text += `, helm.sh/hook-delete-policy: "` + policies + `"`
	}
	text += "}}\n"
	if kind == "Job" {
		return text + "apiVersion: batch/v1\nkind: Job\nspec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}\n"
	}
	return text + "apiVersion: v1\nkind: " + kind + "\ndata: {install: \"{{ .Release.IsInstall }}\"}\n"
}

// counting is the lab behind a proxy that counts the objects of a namespace that
// are created, by name.
func counting(t *testing.T, lab *labtest.Lab, ns string) (behind *labtest.Lab, counted func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	made := map[string]int{}
	behind = faulty(t, lab, func(req *http.Request) int {
		if req.Method != http.MethodPost || !strings.Contains(req.URL.Path, "/namespaces/"+ns+"/") {
			return 0
		}
		body, err := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		var o metav1.PartialObjectMetadata
		if err == nil && json.Unmarshal(body, &o) == nil && !strings.HasPrefix(o.Name, "sh.helm.") {
			mu.Lock()
			defer mu.Unlock()
			made[o.Name]++
		}
		return 0
	})
	return behind, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(made)
	}
}

func statuses(t *testing.T, lab *labtest.Lab, ns string) map[int]release.Status {
	t.Helper()
	history, err := helmOf(t, lab, ns).Releases.History(ns)
	require.NoError(t, err)
	out := map[int]release.Status{}
	for _, r := range history {
		out[r.Version] = r.Info.Status
	}
	return out
}

// A first install that failed is still one when it is tried again: install hooks
// run, but for those that did what they are for, and nothing that is there is
// taken away.
func TestHelmStepGoesOnWithAFirstInstall(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	onEngines(t, func(t *testing.T, engine string) {
		t.Helper()
		ns := lab.Namespace(t)
		behind, counted := counting(t, lab, ns)
		parts := map[string]string{
			"later.yaml": later,
			"hooks.yaml": hookOf("ConfigMap", "account", "pre-install", "hook-succeeded") +
				hookOf("ConfigMap", "kept", "pre-install", "hook-failed") +
				hookOf("Job", "once", "pre-install", "hook-failed") +
				hookOf("Job", "once-gone", "pre-install", "hook-succeeded") +
				hookOf("Job", "each-time", "pre-install", "") +
				hookOf("Job", "upgrade", "pre-upgrade", "") +
				hookOf("Job", "after", "post-install", "hook-failed"),
			// Rendered again this would fail.
			"guard.yaml": `{{ if lookup "v1" "ConfigMap" .Release.Namespace "paired" }}{{ fail "it is there" }}{{ end }}`,
		}
		maps.Copy(parts, paired)
		dir := chartOf(t, parts)
		step := func() *run {
			return runPlan(t, behind, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, server_side: false, engine: "+engine+"}\n")
		}

		require.ErrorContains(t, step().err, ns+"-later")
		core := lab.Clientset(t).CoreV1()
		before, err := core.ConfigMaps(ns).Get(t.Context(), "paired", metav1.GetOptions{})
		require.NoError(t, err)
		require.ErrorContains(t, step().err, ns+"-later", "for as often as it takes")
		makeLater(t, lab, ns)
		third := step()

		require.NoError(t, third.err)
		require.Equal(t, 3, third.execution.Step("s").Revision)
		require.Equal(t, map[string]int{
			"account": 3, // gone each time, and others may need it
			"kept":    1, "once": 1, "once-gone": 1, "each-time": 3, "after": 1,
			"paired":         1 + 3, // the template's once, the hook's each time
			ns + "-settings": 1,
		}, counted())
		require.Equal(t, map[int]release.Status{1: release.StatusFailed, 2: release.StatusFailed, 3: release.StatusDeployed}, statuses(t, lab, ns))
		after, err := core.ConfigMaps(ns).Get(t.Context(), "paired", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, before.UID, after.UID)
		requirePaired(t, lab, ns)
		kept, err := core.ConfigMaps(ns).Get(t.Context(), "kept", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "true", kept.Data["install"])

		last, err := helmOf(t, lab, ns).Releases.Last(ns)
		require.NoError(t, err)
		require.Len(t, last.Hooks, 8, "the record has also the hooks that were not run again")
		for _, h := range last.Hooks {
			if h.Name != "upgrade" {
				require.Equal(t, release.HookPhaseSucceeded, h.LastRun.Phase, h.Name)
			}
		}
	})
}

// What a failed hook left makes way for it to run again, whatever its policy
// says; what was not the release's stays.
func TestHelmStepRunsAFailedHookAgain(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	job := `
apiVersion: batch/v1
kind: Job
metadata: {name: setup, annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded}}
spec: {suspend: {{ .Values.suspend }}, activeDeadlineSeconds: 1, template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}
`
	dir := chartOf(t, map[string]string{"hook.yaml": job})
	step := func(ns, suspend string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: {suspend: "+suspend+"}}\n")
	}

	ns := lab.Namespace(t)
	require.ErrorContains(t, step(ns, "false").err, "setup")
	again := step(ns, "true")
	require.NoError(t, again.err)
	require.Equal(t, map[int]release.Status{1: release.StatusFailed, 2: release.StatusDeployed}, statuses(t, lab, ns))

	ns = lab.Namespace(t)
	jobs := lab.Clientset(t).BatchV1().Jobs(ns)
	suspended := true
	foreign, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "setup"},
		Spec: batchv1.JobSpec{Suspend: &suspended, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "x"}},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for range 2 {
		require.ErrorContains(t, step(ns, "true").err, "already exists")
	}
	still, err := jobs.Get(t.Context(), "setup", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, foreign.UID, still.UID)
}

// A first install that is mended meanwhile, by other values, leaves what the
// mended one says: custom resources too, and nothing of what it says no more.
func TestHelmStepMendsAFirstInstall(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	group := ns + ".kplan.dev"
	dir := chartOf(t, map[string]string{
		"later.yaml": later,
		"first.yaml": `{{ if eq .Values.size 1.0 }}
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first-kept, annotations: {helm.sh/resource-policy: keep}}
{{ end }}`,
		"thing.yaml": `{apiVersion: ` + group + `/v1, kind: Thing, metadata: {name: thing}, spec: {size: {{ .Values.size }}, made: "{{ .Release.IsInstall }}"}}`,
	})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "crds"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crds", "things.yaml"), []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.`+group+`}
spec:
  group: `+group+`
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`), 0o600))
	dyn, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	dropCRD(t, dyn, "things."+group)
	step := func(size string) error {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: {size: "+size+"}}\n").err
	}

	require.ErrorContains(t, step("1"), ns+"-later")
	maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
	_, err = maps.Get(t.Context(), "first", metav1.GetOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, step("2"), ns+"-later")
	makeLater(t, lab, ns)
	require.NoError(t, step("2"))

	thing, err := dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(ns).
		Get(t.Context(), "thing", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"size": int64(2), "made": "true"}, thing.Object["spec"])
	_, err = maps.Get(t.Context(), "first", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = maps.Get(t.Context(), "first-kept", metav1.GetOptions{})
	require.NoError(t, err)
}

// dropCRD asks for the deletion of a CustomResourceDefinition at the test's end.
func dropCRD(t *testing.T, dyn dynamic.Interface, name string) {
	t.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	t.Cleanup(func() { _ = dyn.Resource(crds).Delete(context.Background(), name, metav1.DeleteOptions{}) })
}
