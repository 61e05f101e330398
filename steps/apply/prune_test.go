package apply

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
)

func pruning(a *plan.Apply) { a.Prune = true }

// names are the ConfigMaps of a namespace.
func (f fixture) names(t *testing.T) []string {
	t.Helper()
	list, err := f.lab.Clientset(t).CoreV1().ConfigMaps(f.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	require.NoError(t, err)
	var names []string
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return names
}

func configMaps(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {k: v}}\n")
	}
	return b.String()
}

func TestPruneDeletesWhatTheManifestsNoLongerHave(t *testing.T) {
	w := &writes{}
	f := onLab(t, w.wrap)
	f.neighbours.Places = func(context.Context) (map[Place]string, error) {
		return map[Place]string{{schema.GroupKind{Kind: "ConfigMap"}, f.namespace, "moved"}: "later"}, nil
	}
	kept := "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}}\n"
	role := "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}\n"
	r, err := f.apply(t, configMaps("a", "b", "moved")+kept+role, pruning)
	require.NoError(t, err)
	require.Equal(t, "5 created", r.result(t).Message)
	require.True(t, r.result(t).Objects[0].Created)
	_, err = f.apply(t, configMaps("stranger"))
	require.NoError(t, err)
	w.take()

	r, err = f.apply(t, configMaps("a", "b", "moved")+kept+role, pruning)
	require.NoError(t, err)
	require.True(t, r.result(t).Unchanged)
	require.Empty(t, w.take())

	dir := filepath.Dir(f.write(t, configMaps("a")))
	action, err := New(plan.Step{Name: "step", Dir: dir, Apply: &plan.Apply{Files: []string{"*.yaml"}, Namespace: f.namespace, Prune: true}}, "", f.neighbours, nil)
	require.NoError(t, err)
	would, err := action.Preview(t.Context(), f.session)
	require.NoError(t, err)
	require.Len(t, would, 3)
	require.Equal(t, "ConfigMap/"+f.namespace+"/b", would[1].ID())
	require.Nil(t, would[1].After)

	r, err = f.apply(t, configMaps("a"), pruning)
	require.NoError(t, err)
	require.Equal(t, "1 unchanged, 2 pruned", r.result(t).Message)
	require.False(t, r.result(t).Unchanged)
	require.Equal(t, []string{"a", "kept", "moved", "stranger"}, f.names(t))
	require.Equal(t, []string{
		"ConfigMap/" + f.namespace + "/kept stays: helm.sh/resource-policy: keep",
		"ConfigMap/" + f.namespace + "/moved stays: the step later has it now",
		"pruning what the manifests no longer have: ConfigMap/" + f.namespace + "/b, Role/" + f.namespace + "/r",
	}, r.logs())

	parent, err := f.lab.Clientset(t).CoreV1().Secrets(f.namespace).Get(t.Context(), "kplan-plan.step", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "ConfigMap", parent.Annotations["applyset.kubernetes.io/contains-group-kinds"])
	require.Empty(t, parent.Annotations["applyset.kubernetes.io/additional-namespaces"])
}

func TestPruneLeavesWhatOthersPutIntoANamespace(t *testing.T) {
	f := onLab(t, nil)
	inner, occupied := f.namespace+"-inner", f.namespace+"-occupied"
	namespaces := f.lab.Clientset(t).CoreV1().Namespaces()
	t.Cleanup(func() {
		for _, name := range []string{inner, occupied} {
			_ = namespaces.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		}
	})
	both := "---\n{apiVersion: v1, kind: Namespace, metadata: {name: " + inner + "}}\n" +
		"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: " + inner + "}}\n" +
		"---\n{apiVersion: v1, kind: Namespace, metadata: {name: " + occupied + "}}\n"
	_, err := f.apply(t, configMaps("a")+both, pruning)
	require.NoError(t, err)
	other := f
	other.namespace = occupied
	_, err = other.apply(t, configMaps("theirs"))
	require.NoError(t, err)

	r, err := f.apply(t, configMaps("a"), pruning)
	require.NoError(t, err)
	require.Equal(t, "1 unchanged, 2 pruned", r.result(t).Message)
	require.Contains(t, r.logs(), "Namespace/"+occupied+" stays: ConfigMap/"+occupied+"/theirs would be deleted with it")
	_, err = namespaces.Get(t.Context(), inner, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestAMemberOfAnotherSetIsNotTaken(t *testing.T) {
	f := onLab(t, nil)
	_, err := f.apply(t, configMaps("a"), pruning)
	require.NoError(t, err)
	theirs := applyset.Of("plan", plan.Step{Name: "step"}, f.namespace).ID()

	f.neighbours.Plan = "other"
	_, err = f.apply(t, configMaps("a"), pruning)
	require.ErrorContains(t, err, "is a member of another apply set, "+theirs)
	require.Contains(t, runner.HintOf(err), "force_conflicts")
	_, err = f.apply(t, configMaps("a"), pruning, func(a *plan.Apply) { a.ForceConflicts = true })
	require.NoError(t, err)

	f.neighbours.Plan, f.neighbours.Sets = "third", map[string]bool{applyset.Of("other", plan.Step{Name: "step"}, f.namespace).ID(): true}
	_, err = f.apply(t, configMaps("a"), pruning)
	require.NoError(t, err, "another step of the plan had it")
}

// TestKubectlUnderstandsTheSet has kubectl refuse the set, as it does for any that
// another tool manages, and prune it once it is said to be kubectl's.
func TestKubectlUnderstandsTheSet(t *testing.T) {
	f := onLab(t, nil)
	_, err := f.apply(t, configMaps("a", "b"), pruning)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configMaps("a")), 0o600))
	program := labtest.Kubectl(t)
	kubectl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, append(args, "-n", f.namespace)...)
		cmd.Env = append(os.Environ(), "KUBECTL_APPLYSET=true", "KUBECONFIG="+f.lab.Kubeconfig)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	apply := []string{"apply", "--server-side", "--force-conflicts", "--prune", "--applyset=kplan-plan.step", "-f", file}
	out, err := kubectl(apply...)
	require.Error(t, err)
	require.Contains(t, out, `managed by tooling "kplan" instead of "kubectl"`)

	out, err = kubectl("annotate", "--overwrite", "secret/kplan-plan.step", "applyset.kubernetes.io/tooling=kubectl/v1.36.3")
	require.NoError(t, err, out)
	out, err = kubectl(apply...)
	require.NoError(t, err, out)
	require.Contains(t, out, "configmap/b pruned")
	require.Equal(t, []string{"a"}, f.names(t))

	_, err = f.apply(t, configMaps("a"), pruning)
	require.ErrorContains(t, err, "is managed by kubectl/v1.36.3")
}

func TestOnImmutable(t *testing.T) {
	f := onLab(t, nil)
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: a}, type: TYPE, stringData: {k: v}}"
	_, err := f.apply(t, strings.Replace(secret, "TYPE", "example.com/a", 1))
	require.NoError(t, err)
	changed := strings.Replace(secret, "TYPE", "example.com/b", 1)
	_, err = f.apply(t, changed)
	require.ErrorContains(t, err, "Secret/"+f.namespace+"/a")
	require.Contains(t, runner.HintOf(err), "on_immutable: recreate")

	anew := func(a *plan.Apply) { a.OnImmutable = plan.RecreateImmutable }
	_, err = f.apply(t, strings.Replace(secret, "TYPE", "kubernetes.io/tls", 1), anew)
	require.ErrorContains(t, err, "is not made anew, since it would be refused")
	r, err := f.apply(t, changed, anew)
	require.NoError(t, err)
	require.Equal(t, "1 created", r.result(t).Message)
	require.Equal(t, "Secret/"+f.namespace+"/a is deleted and made anew: type cannot be changed", r.logs()[0])
}
