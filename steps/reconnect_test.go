package steps_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// refusing is a way to a lab on which everything is refused from some time on.
var refusing = fault{name: "credentials refused for ever", strike: func(_ *front, _ int, w http.ResponseWriter, _ *http.Request) bool {
	status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	return true
}}

func kubeconfigOf(t *testing.T, lab *labtest.Lab) string {
	t.Helper()
	b, err := os.ReadFile(lab.Kubeconfig)
	require.NoError(t, err)
	return string(b)
}

// testReconnected leads a cluster's kubeconfig to another address in the middle of a run,
// while the old one answers no more. The lock of the cluster is never free in between, and
// is given back at the end; that of a cluster which is used no more, too.
func testReconnected(t *testing.T, mothership, regional *labtest.Lab) {
	t.Helper()
	for name, same := range map[string]bool{"to the same cluster": true, "to another cluster": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := mothership.Namespace(t)
			there := mothership
			if same {
				there = regional
			}
			old, fresh := newFront(t, regional), newFront(t, there)
			core := mothership.Clientset(t).CoreV1()
			lease := func(lab *labtest.Lab) (holder string, transitions int32) {
				l, err := lab.Clientset(t).CoordinationV1().Leases(ns).Get(t.Context(), "kplan-test", metav1.GetOptions{})
				require.NoError(t, err)
				return *l.Spec.HolderIdentity, *l.Spec.LeaseTransitions
			}

			out := runSteps(t, mothership, ns, secretStep(kubeconfigOf(t, old.Lab))+`
- name: before
  needs: [secret]
  cluster: regional
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: NS-before, namespace: NS}}]}
- name: pause
  needs: [before]
  timeout: 3m
  wait: {resource: configmap/moved, namespace: NS, for: create}
- name: after
  needs: [pause]
  cluster: regional
  retry: {install_retries: 3, retry_delay_seconds: 0.1}
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: NS-after, namespace: NS}}]}
- name: held
  needs: [after]
  timeout: 3m
  wait: {resource: configmap/looked, namespace: NS, for: create}
state: {namespace: NS}
`+regionalCluster, steps.Config{Run: "this", Lock: &steps.Lock{Lost: func(err error) { require.NoError(t, err) }}},
				during(t, "pause", func() {
					_, err := core.Secrets(ns).Patch(t.Context(), "regional", "application/merge-patch+json",
						fmt.Appendf(nil, `{"stringData":{"value":%s}}`, strconv.Quote(kubeconfigOf(t, fresh.Lab))), metav1.PatchOptions{})
					require.NoError(t, err)
					old.arm(0, refusing)
					_, err = core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "moved"}}, metav1.CreateOptions{})
					require.NoError(t, err)
				}),
				during(t, "held", func() {
					holder, transitions := lease(there)
					require.Equal(t, "this", holder)
					require.Zero(t, transitions, "it was taken once")
					_, err := core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "looked"}}, metav1.CreateOptions{})
					require.NoError(t, err)
				}))

			require.NoError(t, out.err)
			require.Equal(t, runner.StateSucceeded, out.execution.Step("after").State)
			holder, _ := lease(there)
			require.Empty(t, holder, "the lock is given back")
		})
	}
}

// testOrderOfLocks lets another run have the lock of the cluster that comes first in the
// order of all runs: none of the other one's is taken meanwhile, whatever the plan calls
// the two.
func testOrderOfLocks(t *testing.T, mothership, regional *labtest.Lab) {
	t.Helper()
	uid := func(lab *labtest.Lab) string {
		ns, err := lab.Clientset(t).CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		require.NoError(t, err)
		return string(ns.UID)
	}
	first, second := mothership, regional
	if strings.Compare(uid(first), uid(second)) > 0 {
		first, second = second, first
	}
	for name, files := range map[string][2]string{
		"by their names too": {first.Kubeconfig, second.Kubeconfig}, "against their names": {second.Kubeconfig, first.Kubeconfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := first.Namespace(t)
			other, err := ledger.Acquire(t.Context(), ledger.Place{Client: first.Clientset(t), Namespace: ns, Plan: "test"}, ledger.Request{Holder: ledger.Self("other")})
			require.NoError(t, err)
			defer func() { require.NoError(t, other.Release(t.Context())) }()
			p := planOf(t, mothership, ns, `
- name: one
  cluster: a
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: NS-a, namespace: NS}}]}
- name: two
  cluster: b
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: NS-b, namespace: NS}}]}
state: {namespace: NS}
clusters: {a: {kubeconfig: `+files[0]+`}, b: {kubeconfig: `+files[1]+`}}
`)

			_, err = steps.New(t.Context(), steps.Config{
				Plan: p, Flags: genericclioptions.NewConfigFlags(false), Run: "this", Lock: &steps.Lock{Lost: func(error) {}}, UserAgent: "kplan-test",
			})

			held := (*ledger.HeldError)(nil)
			require.ErrorAs(t, err, &held)
			require.Equal(t, "other", held.Holder.Run)
			_, err = second.Clientset(t).CoordinationV1().Leases(ns).Get(t.Context(), "kplan-test", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "%v", err)
		})
	}
}
