package steps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// The values of the last revision are what the step says, as with Helm's flags: those of
// the same name are given to its command beside it.
func TestHelmStepReusesValues(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for field, flag := range map[string]string{
		"":                              "--reset-values",
		"reset_values: true, ":          "--reset-values",
		"reuse_values: true, ":          "--reuse-values",
		"reset_then_reuse_values: true": "--reset-then-reuse-values",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := read(t, "testdata/charts/plain.txtar")
			theirs, ours := c.side(t, lab, labtest.Helm(t)), c.side(t, lab, labtest.Helm(t))
			for _, s := range []*side{theirs, ours} {
				s.byHelm(t, "one.yaml", "chart", false)
				values := filepath.Join(s.dir, "chart", "values.yaml") // a new version has other defaults
				require.NoError(t, os.WriteFile(values, []byte("replicas: 1\nport: 9000\nsettings: {}\nmore: {a: b}\n"), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(s.dir, "three.yaml"), []byte("settings: {size: null, third: true}\n"), 0o600))
			}
			theirs.run(t, "upgrade", "rel", filepath.Join(theirs.dir, "chart"), "-f", filepath.Join(theirs.dir, "three.yaml"), flag)
			step := func() *runner.Step {
				out := runPlan(t, ours.lab, ours.namespace, "\n- name: rel\n  helm: {chart: "+filepath.Join(ours.dir, "chart")+
					", namespace: NS, wait: hooks, values_files: ["+filepath.Join(ours.dir, "three.yaml")+"], "+field+"}\n")
				require.NoError(t, out.err)
				return out.execution.Step("rel")
			}

			require.Equal(t, 2, step().Revision)

			requireSame(t, flag, theirs.left(t), ours.left(t))
			require.Equal(t, runner.StateUnchanged, step().State)
		})
	}
}

// Description, labels and history are as Helm's flags have them, labels that Helm merges
// included; other labels are another revision.
func TestHelmStepDescribesItsRevisions(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	c := read(t, "testdata/charts/no-templates.txtar")
	theirs, ours := c.side(t, lab, labtest.Helm(t)), c.side(t, lab, labtest.Helm(t))
	flags := []string{"--install", "--description", "by hand", "--history-max", "2"}
	step := func(fields string) *runner.Step {
		out := runPlan(t, ours.lab, ours.namespace, "\n- name: rel\n  helm: {chart: "+filepath.Join(ours.dir, "chart")+
			", namespace: NS, wait: hooks, description: by hand, max_history: 2, "+fields+"}\n")
		require.NoError(t, out.err)
		return out.execution.Step("rel")
	}
	for _, tc := range []struct{ fields, labels, values string }{
		{"labels: {team: a, tier: x}", "team=a,tier=x", "{}"},
		{"labels: {team: b}, values: {num: 1}", "team=b", `{"num":1}`},
		{"labels: {tier: 'null'}, values: {num: 2}", "tier=null", `{"num":2}`},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(theirs.dir, "v.yaml"), []byte(tc.values), 0o600))
		theirs.run(t, append([]string{"upgrade", "rel", filepath.Join(theirs.dir, "chart"), "--labels", tc.labels, "-f", filepath.Join(theirs.dir, "v.yaml")}, flags...)...)

		require.Equal(t, runner.StateSucceeded, step(tc.fields).State)

		requireSame(t, tc.labels, theirs.left(t), ours.left(t))
	}
	require.Equal(t, runner.StateUnchanged, step("labels: {team: b}, values: {num: 2}").State)
	require.Equal(t, 4, step("labels: {team: c}, values: {num: 2}").Revision, "the labels differ")
	require.Len(t, ours.releases(t), 2)
}

// With disable_hooks no hook is run, at an upgrade neither, and the record has them all.
func TestHelmStepDisablesHooks(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	c := read(t, "testdata/charts/hooks-every-event.txtar")
	theirs, ours := c.side(t, lab, labtest.Helm(t)), c.side(t, lab, labtest.Helm(t))
	for _, values := range []string{"one.yaml", "two.yaml"} {
		theirs.run(t, "upgrade", "--install", "rel", filepath.Join(theirs.dir, "chart"), "-f", filepath.Join(theirs.dir, values), "--no-hooks")
		out := runPlan(t, ours.lab, ours.namespace, "\n- name: rel\n  helm: {chart: "+filepath.Join(ours.dir, "chart")+
			", namespace: NS, wait: hooks, values_files: ["+filepath.Join(ours.dir, values)+"], disable_hooks: true}\n")
		require.NoError(t, out.err)
		requireSame(t, values, theirs.left(t), ours.left(t))
	}
}

// Files become values, as with --set-file, and their texts are part of what is compared.
func TestHelmStepSetsFiles(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, nil)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	step := func() *runner.Step {
		out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+`, release: NS, namespace: NS, set_file: {data.ca\.pem: `+file+", data.from: "+file+"}}\n")
		require.NoError(t, out.err)
		return out.execution.Step("s")
	}
	write("a, {b}\n1")

	step()

	require.Equal(t, map[string]string{"ca.pem": "a, {b}\n1", "from": "a, {b}\n1", "kept": "chart"}, settings(t, lab, ns))
	require.Equal(t, runner.StateUnchanged, step().State)
	write("other")
	require.Equal(t, 2, step().Revision)
}

// Objects that are there, of kubectl or another release, are refused by name, all of them;
// with take_ownership they become the release's, as it was rendered.
func TestHelmStepTakesOwnership(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ns + "-settings"}, Data: map[string]string{"theirs": "x", "from": "x"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	more := map[string]string{"more.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {a: b}}"}
	require.NoError(t, runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+chartOf(t, map[string]string{
		"settings.yaml": "", "more.yaml": more["more.yaml"],
	})+", release: other, namespace: NS}\n").err)
	dir := chartOf(t, more)
	step := func(fields string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS"+fields+"}\n")
	}

	refused := step("")

	require.ErrorContains(t, refused.err, "ConfigMap/"+ns+"/"+ns+"-settings exists and belongs to no Helm release")
	require.ErrorContains(t, refused.err, "ConfigMap/"+ns+"/more exists and belongs to Helm release "+ns+"/other")
	require.Contains(t, runner.HintOf(refused.err), "take_ownership: true")
	require.True(t, runner.IsPermanent(refused.err))
	require.Empty(t, recordsOf(t, lab, ns, ns), "nothing was recorded")

	taken := step(", take_ownership: true")

	require.NoError(t, taken.err)
	require.Equal(t, 1, taken.execution.Step("s").Revision)
	require.Equal(t, map[string]string{"from": "chart", "kept": "chart", "theirs": "x"}, settings(t, lab, ns))
	m, err := maps.Get(t.Context(), "more", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, ns, m.Annotations["meta.helm.sh/release-name"])
	require.Equal(t, runner.StateUnchanged, step(", take_ownership: true").execution.Step("s").State)

	t.Run("on an upgrade", func(t *testing.T) {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Data: map[string]string{"a": "x"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		later := filepath.Join(dir, "templates", "later.yaml")
		require.NoError(t, os.WriteFile(later, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: later}, data: {a: b}}"), 0o600))
		require.ErrorContains(t, step("").err, "ConfigMap/"+ns+"/later exists and belongs to no Helm release")
		require.NoError(t, step(", take_ownership: true").err)
		m, err := maps.Get(t.Context(), "later", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "b", m.Data["a"])
	})
}

// Jobs are waited for where the step says so.
func TestHelmStepWaitsForJobs(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t) // nobody runs its Jobs
	dir := chartOf(t, map[string]string{"job.yaml": `{apiVersion: batch/v1, kind: Job, metadata: {name: job},
  spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}}`})
	step := func(ns, jobs string) error {
		return runPlan(t, lab, ns, "\n- name: s\n  timeout: 8s\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait_for_jobs: "+jobs+"}\n").err
	}
	ns := lab.Namespace(t)

	require.NoError(t, step(ns, "false"))

	var timeout *runner.TimeoutError
	require.ErrorAs(t, step(ns, "true"), &timeout, "also for what is there already")
	require.ErrorAs(t, step(lab.Namespace(t), "true"), &timeout)
}

// A chart is told the version and the kinds that the step says, besides those of its own
// crds folder.
func TestHelmStepTellsTheChartItsCapabilities(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{"caps.yaml": strings.ReplaceAll(`{apiVersion: v1, kind: ConfigMap, metadata: {name: caps}, data: {
  version: "{{ .Capabilities.KubeVersion }}", told: "{{ .Capabilities.APIVersions.Has "example.com/v9/Thing" }}",
  own: "{{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }}", crd: "{{ .Capabilities.APIVersions.Has "NSNAME.kplan.dev/v1" }}"}}`, "NSNAME", ns)})
	crds := filepath.Join(dir, "crds")
	require.NoError(t, os.Mkdir(crds, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(crds, "a.yaml"), []byte(definition(ns, "things", "Thing", "thing")), 0o600))
	dropDefinitions(t, lab, "things."+ns+".kplan.dev")

	out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, kube_version: 1.22.3, api_versions: [example.com/v9/Thing]}\n")

	require.NoError(t, out.err)
	m, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "caps", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "v1.22.3", m.Data["version"])
	require.Equal(t, "true", m.Data["told"])
	require.Equal(t, "true", m.Data["own"])
	require.Equal(t, "true", m.Data["crd"])
}

// What the crds folder has comes to the cluster as the step says: not at all, when it is
// missing, or on upgrades too.
func TestHelmStepUpgradesCRDs(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for policy, want := range map[string]struct{ first, second any }{
		"skip":    {nil, nil},
		"create":  {"one", "one"},
		"upgrade": {"one", "two"},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			dir := chartOf(t, nil)
			name := "things." + ns + ".example.com"
			dropDefinitions(t, lab, name)
			write := func(size string) {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "crds"), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "crds", "a.yaml"), []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+name+`}
spec:
  group: `+ns+`.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {`+size+`: {type: string}}}}}
`), 0o600))
			}
			step := func(policy string) *runner.Step {
				out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, crds: "+policy+"}\n")
				require.NoError(t, out.err)
				return out.execution.Step("s")
			}
			property := func() any {
				crd, err := definitions(t, lab).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return nil
				}
				versions := crd.Object["spec"].(map[string]any)["versions"].([]any)
				properties := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
				require.Len(t, properties, 1, "what the chart has no more is gone")
				for p := range properties {
					return p
				}
				return nil
			}
			write("one")

			step(policy)
			require.Equal(t, want.first, property())
			require.Equal(t, runner.StateUnchanged, step(policy).State)

			write("two")
			require.Equal(t, 2, step(policy).Revision)
			require.Equal(t, want.second, property())

			if policy == "create" { // what Helm left behind is made up for, without a new revision
				made := step("upgrade")
				require.Equal(t, runner.StateSucceeded, made.State)
				require.Equal(t, 2, made.Revision)
				require.Equal(t, "two", property())
				require.Equal(t, runner.StateUnchanged, step("upgrade").State)
			}
		})
	}
}
