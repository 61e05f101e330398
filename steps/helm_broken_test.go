package steps_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

const (
	labWait = time.Minute
	labTick = 20 * time.Millisecond
)

// recordsOf are the Secrets of a release, by name.
func recordsOf(t *testing.T, lab *labtest.Lab, ns, release string) map[string]*corev1.Secret {
	t.Helper()
	list, err := lab.Clientset(t).CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	require.NoError(t, err)
	out := map[string]*corev1.Secret{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// edited replaces a text in a release's record.
func edited(t *testing.T, lab *labtest.Lab, secret *corev1.Secret, from, to string) {
	t.Helper()
	zipped, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	require.NoError(t, err)
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	var release map[string]any
	require.NoError(t, json.Unmarshal(text, &release))
	manifest := release["manifest"].(string)
	require.Contains(t, manifest, from)
	release["manifest"] = strings.ReplaceAll(manifest, from, to)
	text, err = json.Marshal(release)
	require.NoError(t, err)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	secret.Data["release"] = []byte(base64.StdEncoding.EncodeToString(out.Bytes()))
	_, err = lab.Clientset(t).CoreV1().Secrets(secret.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// A release whose record is lost is installed over its objects, which say that they are
// its own; what was changed in them meanwhile is put right.
func TestHelmStepAdoptsWhatARecordIsLostOf(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{"thing.yaml": "{apiVersion: " + ns + ".kplan.dev/v1, kind: Thing, metadata: {name: thing, labels: {a: b}}}"})
	dropDefinitions(t, lab, "things."+ns+".kplan.dev")
	create(t, lab, definition(ns, "things", "Thing", "thing"))
	step := func(values string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: "+values+"}\n")
	}
	require.NoError(t, step("{data: {is: one}}").err)
	core := lab.Clientset(t).CoreV1()
	for name := range recordsOf(t, lab, ns, ns) {
		require.NoError(t, core.Secrets(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	m, err := core.ConfigMaps(ns).Get(t.Context(), ns+"-settings", metav1.GetOptions{})
	require.NoError(t, err)

	adopted := step("{data: {is: two}}")

	require.NoError(t, adopted.err)
	require.Equal(t, 1, adopted.execution.Step("s").Revision)
	require.Equal(t, "two", settings(t, lab, ns)["is"])
	now, err := core.ConfigMaps(ns).Get(t.Context(), ns+"-settings", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, m.UID, now.UID, "nothing was made anew")
	require.Equal(t, runner.StateUnchanged, step("{data: {is: two}}").execution.Step("s").State)
}

// A record that would not fit into a Secret is refused before anything is sent, and the
// error says what is large.
func TestHelmStepRefusesWhatNoSecretHolds(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, nil)
	noise := make([]byte, 900<<10)
	rand.New(rand.NewSource(1)).Read(noise)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "crds"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crds", "a.yaml"), []byte(definition(ns, "things", "Thing", "thing")), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large.bin"), noise, 0o600))
	dropDefinitions(t, lab, "things."+ns+".kplan.dev")
	step := func(fields string) error {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS-new, create_namespace: true"+fields+"}\n").err
	}

	err := step("")

	require.ErrorContains(t, err, "the release's record takes 1.")
	require.ErrorContains(t, err, "and a Secret at most 1.0 MiB; largest in it: large.bin 1.")
	require.True(t, runner.IsPermanent(err))
	require.Contains(t, runner.HintOf(err), ".helmignore")
	_, err = definitions(t, lab).Get(t.Context(), "things."+ns+".kplan.dev", metav1.GetOptions{})
	require.Error(t, err, "no CustomResourceDefinition")
	_, err = lab.Clientset(t).CoreV1().Namespaces().Get(t.Context(), ns+"-new", metav1.GetOptions{})
	require.Error(t, err, "no namespace")

	require.NoError(t, os.Remove(filepath.Join(dir, "large.bin")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "templates", "large.yaml"),
		[]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: large}, binaryData: {a: {{ randBytes 900000 }}}}"), 0o600))
	err = step(", crds: skip")
	require.ErrorContains(t, err, "largest in it: what the chart renders to 1.")
	_, err = lab.Clientset(t).CoreV1().ConfigMaps(ns+"-new").Get(t.Context(), ns+"-settings", metav1.GetOptions{})
	require.Error(t, err, "nothing is sent that is not recorded")
	_ = lab.Clientset(t).CoreV1().Namespaces().Delete(t.Context(), ns+"-new", metav1.DeleteOptions{})
}

// A record with API versions that the cluster no longer serves is mended, as far as the
// objects are served in others; those of kinds that are gone are left out.
func TestHelmStepMendsRemovedVersions(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{
		"budget.yaml":  "# A comment\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: budget}\nspec: {maxUnavailable: {{ .Values.most }}, selector: {matchLabels: {a: b}}}\n",
		"json.yaml":    `{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron"}, "spec": {"schedule": "0 0 * * *", "suspend": true, "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}}}}}}`,
		"ingress.yaml": "apiVersion: 'networking.k8s.io/v1'\nkind: Ingress\nmetadata: {name: ingress}\nspec: {defaultBackend: {service: {name: x, port: {number: 80}}}}\n",
		"gone.yaml":    "{{ if .Values.gone }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\n{{ end }}\n",
	})
	step := func(values string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait: hooks, values: "+values+"}\n")
	}
	require.NoError(t, step("{most: 1, gone: true}").err)
	budget, err := lab.Clientset(t).PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "budget", metav1.GetOptions{})
	require.NoError(t, err)
	for _, change := range [][2]string{
		{"apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n"},
		{`"apiVersion": "batch/v1"`, `"apiVersion": "batch/v1beta1"`},
		{"apiVersion: 'networking.k8s.io/v1'", "apiVersion: extensions/v1beta1"},
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}", "apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: gone}"},
	} {
		edited(t, lab, recordsOf(t, lab, ns, ns)["sh.helm.release.v1."+ns+".v1"], change[0], change[1])
	}

	mended := step("{most: 2}")

	require.NoError(t, mended.err)
	require.Equal(t, 2, mended.execution.Step("s").Revision)
	for _, text := range []string{
		"PodDisruptionBudget/budget is of policy/v1, was of policy/v1beta1", "CronJob/cron is of batch/v1, was of batch/v1beta1",
		"Ingress/ingress is of networking.k8s.io/v1, was of extensions/v1beta1", "PodSecurityPolicy/gone of policy/v1beta1 is left out",
	} {
		require.True(t, logged(mended, "the record of revision 1 is mended", text), "%s: %v", text, mended.of(runner.TypeLog))
	}
	now, err := lab.Clientset(t).PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "budget", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, budget.UID, now.UID, "it was changed, and not made anew")
	require.EqualValues(t, 2, now.Spec.MaxUnavailable.IntValue())
	out, err := (&side{sample: &sample{}, helm: labtest.Helm(t), namespace: ns, dir: t.TempDir(), lab: lab}).command(t.Context(), "rollback", ns, "1")
	require.NoError(t, err, "the Helm command can go back to the mended revision: %s", out)
}

// A chart of which the cluster serves an API version no more fails at once, and the error
// says in which version it is served.
func TestHelmStepNamesServedVersions(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{"budget.yaml": "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: budget}\n"})

	err := runPlan(t, lab, ns, "\n- name: s\n  timeout: 2m\n  helm: {chart: "+dir+", release: NS, namespace: NS}\n").err

	require.ErrorContains(t, err, `no matches for kind "PodDisruptionBudget" in version "policy/v1beta1"`)
	require.Contains(t, runner.HintOf(err), "the cluster serves PodDisruptionBudget as policy/v1: take a version of the chart")
	require.True(t, runner.IsPermanent(err))
}

// A record that cannot be read is told, when it is that of the newest revision, rather than
// that its number is given away a second time.
func TestHelmStepTellsOfADamagedRecord(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, nil)
	step := func(values string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: "+values+"}\n")
	}
	damage := func(name string) {
		s := recordsOf(t, lab, ns, ns)[name]
		s.Data["release"] = []byte("bm90IGEgcmVsZWFzZQ==")
		_, err := lab.Clientset(t).CoreV1().Secrets(ns).Update(t.Context(), s, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	record := "sh.helm.release.v1." + ns
	for _, values := range []string{"{data: {num: '1'}}", "{data: {num: '2'}}", "{data: {num: '3'}}"} {
		require.NoError(t, step(values).err)
	}
	damage(record + ".v1")
	require.Equal(t, 4, step("{data: {num: '4'}}").execution.Step("s").Revision, "an old one harms nobody")

	damage(record + ".v4")
	err := step("{data: {num: '5'}}").err

	require.ErrorContains(t, err, "the Secret "+record+".v4 holds no release")
	require.Contains(t, runner.HintOf(err), "delete it; the run then goes on from revision 3, which is superseded")
	require.True(t, runner.IsPermanent(err))

	require.NoError(t, lab.Clientset(t).CoreV1().Secrets(ns).Delete(t.Context(), record+".v4", metav1.DeleteOptions{}))
	on := step("{data: {num: '5'}}")
	require.NoError(t, on.err)
	require.Equal(t, 4, on.execution.Step("s").Revision)
	require.Equal(t, "5", settings(t, lab, ns)["num"])
}
