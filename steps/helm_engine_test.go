package steps_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// engines are the versions of Helm that make releases.
var engines = []string{"helm3", "helm4"}

// onEngines runs a test with each version of Helm, side by side.
func onEngines(t *testing.T, test func(t *testing.T, engine string)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// commandsOf are both Helm commands, by their versions. Helm names the manager of
// fields after the file that it is run from.
func commandsOf(t *testing.T) map[string]string {
	t.Helper()
	four := filepath.Join(t.TempDir(), "helm")
	require.NoError(t, os.Symlink(labtest.Helm4(t), four))
	return map[string]string{"helm3": labtest.Helm(t), "helm4": four}
}

// helmCommand runs one of them on a lab, for a namespace.
func helmCommand(t *testing.T, lab *labtest.Lab, ns, command string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, append(args, "--namespace", ns, "--kubeconfig", lab.Kubeconfig)...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", command, args, out)
	return string(out)
}

// methods are how the revisions of the test's release were applied, oldest first.
func methods(t *testing.T, lab *labtest.Lab, ns string) []string {
	t.Helper()
	list, err := lab.Clientset(t).CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + ns})
	require.NoError(t, err)
	var out []string
	for _, s := range list.Items { // fewer than ten, in the order of their names
		data, err := base64.StdEncoding.DecodeString(string(s.Data["release"]))
		require.NoError(t, err)
		zipped, err := gzip.NewReader(bytes.NewReader(data))
		require.NoError(t, err)
		var r struct {
			Method string `json:"apply_method"`
		}
		require.NoError(t, json.NewDecoder(zipped).Decode(&r))
		out = append(out, r.Method)
	}
	return out
}

// managers are those of the settings' data, and how they wrote it.
func managers(t *testing.T, lab *labtest.Lab, ns string) []string {
	t.Helper()
	m, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), ns+"-settings", metav1.GetOptions{})
	require.NoError(t, err)
	var out []string
	for _, f := range m.ManagedFields {
		out = append(out, f.Manager+" "+string(f.Operation))
	}
	slices.Sort(out)
	return out
}

// A release that Helm 4, or Flux, applies by the server stays so, with both engines:
// what a later revision does not have any more goes, whoever makes that.
func TestHelmStepAppliesAsItWas(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	onEngines(t, func(t *testing.T, engine string) {
		t.Helper()
		ns, dir, helm := lab.Namespace(t), chartOf(t, nil), commandsOf(t)
		helmCommand(t, lab, ns, helm["helm4"], "install", ns, dir)
		step := func(more string) *run {
			out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, engine: "+engine+", "+more+"}\n")
			require.NoError(t, out.err)
			return out
		}

		step("values: {data: {from: plan, added: plan}}")
		require.Equal(t, []string{"ssa", "ssa"}, methods(t, lab, ns))
		require.Equal(t, []string{"helm Apply"}, managers(t, lab, ns))

		step("values: {data: {from: null, added: plan}}")
		require.Equal(t, map[string]string{"kept": "chart", "added": "plan"}, settings(t, lab, ns), "what the values do not have is gone")

		set := lab.Clientset(t).CoreV1().ConfigMaps(ns)
		_, err := set.Patch(t.Context(), ns+"-settings", types.MergePatchType, []byte(`{"data":{"added":"hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
		require.NoError(t, err)
		require.NotEqual(t, runner.StateUnchanged, step("values: {data: {from: null, added: plan}}").execution.Step("s").State, "drift is put right")
		require.NotContains(t, managers(t, lab, ns), "helm Update")

		helmCommand(t, lab, ns, helm["helm4"], "upgrade", ns, dir, "--set", "data.from=null", "--server-side=true")
		require.Equal(t, map[string]string{"kept": "chart"}, settings(t, lab, ns), "also for Helm after kplan")
	})
}

// What one version of Helm made, the other goes on with, and so do both commands.
func TestEnginesGoOnWithEachOther(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for name, tc := range map[string]struct {
		makers []string
		want   []string
	}{
		"Helm 3 first": {[]string{"helm3", "helm4", "helm3"}, []string{"", "csa", ""}},
		"Helm 4 first": {[]string{"helm4", "helm3", "helm4"}, []string{"ssa", "ssa", "ssa"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, dir, helm := lab.Namespace(t), chartOf(t, nil), commandsOf(t)
			for i, engine := range tc.makers {
				out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, engine: "+engine+", values: {data: {from: "+string(rune('a'+i))+"}}}\n")
				require.NoError(t, out.err)
				require.Equal(t, i+1, out.execution.Step("s").Revision)
			}
			require.Equal(t, tc.want, methods(t, lab, ns))
			again := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, engine: helm3, values: {data: {from: c}}}\n")
			require.NoError(t, again.err)
			require.Equal(t, runner.StateUnchanged, again.execution.Step("s").State, "another engine is no change")

			for _, command := range []string{"helm3", "helm4"} {
				var listed []struct{ Status, Revision string }
				require.NoError(t, json.Unmarshal([]byte(helmCommand(t, lab, ns, helm[command], "list", "-o", "json")), &listed))
				require.Len(t, listed, 1)
				require.Equal(t, "deployed", listed[0].Status)
				var history []struct{ Revision int }
				require.NoError(t, json.Unmarshal([]byte(helmCommand(t, lab, ns, helm[command], "history", ns, "-o", "json")), &history))
				require.Equal(t, listed[0].Revision, string(rune('0'+len(history))))
				helmCommand(t, lab, ns, helm[command], "rollback", ns, "2")
				require.Equal(t, "b", settings(t, lab, ns)["from"])
			}
		})
	}
}

// server_side says how a release is applied, whatever its engine and its past are.
func TestHelmStepAppliesAsItSays(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	onEngines(t, func(t *testing.T, engine string) {
		t.Helper()
		ns, dir := lab.Namespace(t), chartOf(t, nil)
		for i, server := range []string{"false", "true", "auto"} {
			out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, engine: "+engine+", server_side: "+server+", values: {data: {n"+server+": \""+string(rune('a'+i))+"\"}}}\n")
			require.NoError(t, out.err)
		}

		require.Equal(t, []string{"ssa", "ssa"}, methods(t, lab, ns)[1:])
		require.Equal(t, []string{"helm Apply"}, managers(t, lab, ns))
		require.Equal(t, map[string]string{"from": "chart", "kept": "chart", "nauto": "c"}, settings(t, lab, ns), "what the client applied goes too")
	})
}

// A field that somebody else wants otherwise is left to them, unless the step takes it.
func TestHelmStepMeetsAConflict(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	onEngines(t, func(t *testing.T, engine string) {
		t.Helper()
		ns, dir := lab.Namespace(t), chartOf(t, nil)
		step := func(more string) *run {
			return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, engine: "+engine+", server_side: true, "+more+"}\n")
		}
		require.NoError(t, step("values: {}").err)
		_, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Patch(t.Context(), ns+"-settings", types.MergePatchType, []byte(`{"data":{"from":"hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
		require.NoError(t, err)

		refused := step("values: {data: {from: plan}}")
		require.ErrorContains(t, refused.err, "kubectl-edit")
		require.ErrorContains(t, refused.err, ".data.from")
		require.Contains(t, runner.HintOf(refused.err), "force_conflicts")
		require.Equal(t, 1, refused.execution.Step("s").Attempt, "another attempt would meet it, too")

		require.Equal(t, map[int]release.Status{1: release.StatusDeployed, 2: release.StatusFailed}, statuses(t, lab, ns))
		require.Equal(t, "hand", settings(t, lab, ns)["from"])

		require.NoError(t, step("force_conflicts: true, values: {data: {from: plan}}").err)
		require.Equal(t, "plan", settings(t, lab, ns)["from"])
	})
}
