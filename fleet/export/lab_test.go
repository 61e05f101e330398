package export_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/internal/labtest"
)

// image is that of this kplan on the lab.
const image = "kplan.dev/kplan-export:dev"

// Jobs run what was exported: a plan on the cluster that they are in with the value that it
// was given, and a fleet on the cluster of each index.
func TestJobs(t *testing.T) {
	lab := labtest.Node(t)
	lab.Image(t, image, "./cmd/kplan")
	client := lab.Clientset(t)
	t.Run("plan", func(t *testing.T) {
		ns := lab.Namespace(t)
		admin(t, client, ns)
		in := input(t, txtar.Parse([]byte(`set word=given
-- plan.yaml --
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: one}
state: {namespace: `+ns+`}
vars: {word: {type: string}}
steps:
  - name: chart
    helm: {chart: ./chart, namespace: `+ns+`, values: {word: "${{ vars.word }}"}}
  - name: file
    needs: [chart]
    apply: {files: [file.yaml], namespace: `+ns+`}
-- chart/Chart.yaml --
{apiVersion: v2, name: chart, version: 1.0.0}
-- chart/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: chart}, data: {word: "{{ .Values.word }}"}}
-- file.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: file}}
`)))
		runJobs(t, lab, in, ns)
		made, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "chart", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "given", made.Data["word"])
		_, err = client.CoreV1().ConfigMaps(ns).Get(t.Context(), "file", metav1.GetOptions{})
		require.NoError(t, err)
	})
	t.Run("fleet", func(t *testing.T) {
		ns, north, south := lab.Namespace(t), lab.Namespace(t), lab.Namespace(t)
		token := admin(t, client, ns)
		service, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		require.NoError(t, err)
		for name, server := range map[string]string{"north": "https://kubernetes.default.svc", "south": "https://" + service.Spec.ClusterIP} {
			_, err := client.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": kubeconfigOf(t, lab, server, token)},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		in := inputOf(t, lab.Flags(), txtar.Parse([]byte(`
-- fleet.yaml --
apiVersion: kplan.dev/v1alpha1
kind: Fleet
metadata: {name: two}
plan: {file: plan.yaml}
inventory:
  - list:
      - {name: north, kubeconfig_secret: {namespace: `+ns+`, name: north}, labels: {ns: `+north+`}}
      - {name: south, kubeconfig_secret: {namespace: `+ns+`, name: south}, labels: {ns: `+south+`}}
vars: {ns: "${{ cluster.labels.ns }}"}
waves: [{name: all, parallel: 2}]
-- plan.yaml --
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: two}
vars: {ns: {type: string}}
steps: [{name: one, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: "${{ vars.ns }}"}}]}}]
`)))
		runJobs(t, lab, in, ns)
		for _, of := range []string{north, south} {
			_, err := client.CoreV1().ConfigMaps(of).Get(t.Context(), "one", metav1.GetOptions{})
			require.NoError(t, err)
		}
	})
}

// runJobs makes what is exported, and waits until its Jobs are done.
func runJobs(t *testing.T, lab *labtest.Lab, in export.Input, ns string) {
	t.Helper()
	in.Image, in.Namespace, in.ServiceAccount = image, ns, "kplan"
	target := export.Targets[len(export.Targets)-1]
	require.Equal(t, "jobs", target.Name)
	result, err := export.Export(target, in)
	require.NoError(t, err)
	set := lab.Clientset(t)
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(set.Discovery()))
	for _, o := range result.Objects {
		text, err := json.Marshal(o)
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON(text))
		mapping, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		require.NoError(t, err)
		if u.GetKind() == "ServiceAccount" {
			continue // it is there, with rights
		}
		_, err = client.Resource(mapping.Resource).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		require.NoError(t, err)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		jobs, err := set.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(c, err)
		require.NotEmpty(c, jobs.Items)
		for _, j := range jobs.Items {
			require.True(c, ended(&j), "%s: %+v", j.Name, j.Status)
		}
	}, 3*time.Minute, 500*time.Millisecond)
	jobs, err := set.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, j := range jobs.Items {
		require.Equal(t, *j.Spec.Completions, j.Status.Succeeded, logs(t, set, ns))
	}
}

func ended(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// logs are those of the pods of a namespace, for people.
func logs(t *testing.T, client kubernetes.Interface, ns string) string {
	t.Helper()
	pods, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	all := ""
	for _, p := range pods.Items {
		text, err := client.CoreV1().Pods(ns).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		all += fmt.Sprintf("%s %v\n%s\n", p.Name, err, text)
	}
	return all
}

// admin makes the ServiceAccount kplan, which may do all, and returns a token of it.
func admin(t *testing.T, client kubernetes.Interface, ns string) string {
	t.Helper()
	_, err := client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "kplan"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-export"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "kplan"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = client.RbacV1().ClusterRoleBindings().Delete(context.Background(), ns+"-export", metav1.DeleteOptions{})
	})
	hour := int64(3600)
	token, err := client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "kplan", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

func kubeconfigOf(t *testing.T, lab *labtest.Lab, server, token string) []byte {
	t.Helper()
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {token: %s}}]}`,
		server, base64.StdEncoding.EncodeToString(lab.Config(t).CAData), token)
}
