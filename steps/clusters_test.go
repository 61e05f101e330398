package steps_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// credentials are those of an administrator of a cluster, which can be revoked.
type credentials struct {
	lab       *labtest.Lab
	namespace string
	token     string
}

// newCredentials makes a service account that may do everything, in a namespace
// of the test.
func newCredentials(t *testing.T, lab *labtest.Lab, ns string) *credentials {
	t.Helper()
	c := &credentials{lab: lab, namespace: ns}
	bindings := lab.Clientset(t).RbacV1().ClusterRoleBindings()
	_, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "kplan"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = bindings.Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	c.issue(t)
	return c
}

func (c *credentials) issue(t *testing.T) {
	t.Helper()
	accounts := c.lab.Clientset(t).CoreV1().ServiceAccounts(c.namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "kplan"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := accounts.CreateToken(t.Context(), "kplan", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.token = answer.Status.Token
	fresh := c.client(t)
	require.Eventually(t, func() bool { // the API server learns of accounts and rights by watches
		_, err := fresh.CoreV1().Namespaces().Get(t.Context(), c.namespace, metav1.GetOptions{})
		return err == nil
	}, time.Minute, 20*time.Millisecond, "the token is not accepted")
}

// client is one with the token.
func (c *credentials) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(c.lab.Config(t))
	config.BearerToken = c.token
	set, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return set
}

// renew revokes the token, and issues another one. It returns when the API server
// refuses the old one, which it remembers for ten seconds.
func (c *credentials) renew(t *testing.T) {
	t.Helper()
	old := c.client(t)
	require.NoError(t, c.lab.Clientset(t).CoreV1().ServiceAccounts(c.namespace).Delete(t.Context(), "kplan", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := old.CoreV1().Namespaces().Get(t.Context(), c.namespace, metav1.GetOptions{})
		return apierrors.IsUnauthorized(err)
	}, time.Minute, 100*time.Millisecond, "the token is still accepted")
	c.issue(t)
}

// kubeconfig is one with the credentials.
func (c *credentials) kubeconfig(t *testing.T) string {
	t.Helper()
	config := rest.AnonymousClientConfig(c.lab.Config(t))
	require.NoError(t, rest.LoadTLSFiles(config))
	b, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u", "namespace": c.namespace}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{
			"server": config.Host, "certificate-authority-data": config.CAData,
		}}},
		"users": []any{map[string]any{"name": "u", "user": map[string]any{"token": c.token}}},
	})
	require.NoError(t, err)
	return string(b)
}

// during calls do once, in a goroutine of its own, when a step begins to run. The
// test ends only after it has.
func during(t *testing.T, step string, do func()) runner.Observer {
	t.Helper()
	done := make(chan struct{})
	began := false
	t.Cleanup(func() {
		if began {
			<-done
		}
	})
	return observer(func(e runner.Event) {
		if e.Step == step && e.State == runner.StateRunning && !began {
			began = true
			go func() { defer close(done); do() }()
		}
	})
}

type observer func(runner.Event)

func (o observer) Observe(e runner.Event) { o(e) }

// One lab is the mothership, which all tests share; the other one is reached by
// a kubeconfig that is in a Secret of the first.
func TestClusters(t *testing.T) {
	t.Parallel()
	mothership := labtest.ControlPlane(t)
	regional := labtest.Own(t, "test-regional")
	for name, test := range map[string]func(t *testing.T, mothership, regional *labtest.Lab){
		"a step makes the kubeconfig of the next": testKubeconfigOfAStep,
		"credentials are renewed in a run":        testRenewedCredentials,
		"what one cluster gives another takes":    testOutputElsewhere,
		"no cluster of its name":                  testUnreachable,
		"a Secret that is not there yet":          testNoKubeconfigYet,
		"the lock when one is reconnected to":     testReconnected,
		"the order of locks":                      testOrderOfLocks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, mothership, regional)
		})
	}
}

// secretStep is a step that writes a kubeconfig into a Secret. Its keys and tokens
// may happen to hold NS or CHARTS, which runPlan replaces: hence no S.
func secretStep(kubeconfig string) string {
	kubeconfig = strings.ReplaceAll(strconv.Quote(kubeconfig), "S", `\x53`)
	return `
- name: secret
  apply: {objects: [{apiVersion: v1, kind: Secret, metadata: {name: regional, namespace: NS}, stringData: {value: ` + kubeconfig + `}}]}
`
}

const regionalCluster = "\nclusters: {regional: {kubeconfig_secret: {namespace: NS, name: regional}}}\n"

// What a step does on another cluster is in that cluster, in the default
// namespace of its kubeconfig. The cluster is connected to when the step before
// has made its Secret.
func testKubeconfigOfAStep(t *testing.T, mothership, regional *labtest.Lab) {
	t.Helper()
	ns, there := mothership.Namespace(t), regional.Namespace(t)
	access := newCredentials(t, regional, there)

	out := runPlan(t, mothership, ns, secretStep(access.kubeconfig(t))+`
- name: chart
  needs: [secret]
  cluster: regional
  helm: {chart: `+chartOf(t, nil)+`, release: `+there+`}
- name: objects
  needs: [secret]
  cluster: regional
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}}]}
- name: waits
  needs: [objects]
  cluster: regional
  wait: {resource: configmap/applied, for: create}
- name: here
  needs: [waits]
  wait: {resource: configmap/applied, namespace: NS, for: delete}
`+regionalCluster)

	require.NoError(t, out.err)
	for _, name := range []string{"chart", "objects", "waits", "here"} {
		require.Equal(t, 1, out.execution.Step(name).Attempt, name)
	}
	require.NotEmpty(t, settings(t, regional, there))
	_, err := regional.Clientset(t).CoreV1().ConfigMaps(there).Get(t.Context(), "applied", metav1.GetOptions{})
	require.NoError(t, err)
}

// An output of a step on one cluster, and a variable from a Secret there, are used
// in another one. The secret is shown nowhere.
func testOutputElsewhere(t *testing.T, mothership, regional *labtest.Lab) {
	t.Helper()
	ns, there := mothership.Namespace(t), regional.Namespace(t)
	access := newCredentials(t, regional, there)
	_, err := regional.Clientset(t).CoreV1().Secrets(there).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "registry"}, StringData: map[string]string{"token": "s3cr3t-pass"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	out := runPlan(t, mothership, ns, secretStep(access.kubeconfig(t))+`
- name: facts
  needs: [secret]
  cluster: regional
  apply: {objects: [{apiVersion: v1, kind: Service, metadata: {name: gateway}, spec: {ports: [{port: 8429}]}}]}
  outputs: {port: {resource: service/gateway, jsonpath: "{.spec.ports[0].port}"}}
- name: here
  needs: [facts]
  apply:
    namespace: NS
    objects:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: address}, data: {url: "http://gateway:${{ steps.facts.outputs.port }}"}}
    - {apiVersion: v1, kind: Secret, metadata: {name: login}, data: {token: "${{ base64.encode(bytes(vars.token)) }}"}}
- name: told
  needs: [here]
  timeout: 1s
  wait: {resource: "configmap/${{ vars.token }}", namespace: NS, for: create}
vars: {token: {secret: {cluster: regional, name: registry, key: token}, sensitive: true}}
`+regionalCluster)

	require.ErrorContains(t, out.err, "configmap/(sensitive)")
	core := mothership.Clientset(t).CoreV1()
	address, err := core.ConfigMaps(ns).Get(t.Context(), "address", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "http://gateway:8429", address.Data["url"])
	login, err := core.Secrets(ns).Get(t.Context(), "login", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "s3cr3t-pass", string(login.Data["token"]))
	require.NotEmpty(t, out.events)
	for _, e := range out.events {
		text, err := json.Marshal(e)
		require.NoError(t, err)
		require.NotContains(t, string(text), "s3cr3t")
		require.NotContains(t, string(text), "czNjcjN0")
	}
}

// Credentials that are revoked in the middle of a run are read again: the next
// step goes on with the new ones.
func testRenewedCredentials(t *testing.T, mothership, regional *labtest.Lab) {
	t.Helper()
	ns, there := mothership.Namespace(t), regional.Namespace(t)
	access := newCredentials(t, regional, there)
	maps := mothership.Clientset(t).CoreV1().ConfigMaps(ns)

	out := runPlan(t, mothership, ns, secretStep(access.kubeconfig(t))+`
- name: before
  needs: [secret]
  cluster: regional
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: before}}]}
- name: pause
  needs: [before]
  timeout: 3m
  wait: {resource: configmap/renewed, namespace: NS, for: create}
- name: after
  needs: [pause]
  cluster: regional
  helm: {chart: `+chartOf(t, nil)+`, release: `+there+`}
`+regionalCluster, during(t, "pause", func() {
		access.renew(t)
		secrets := mothership.Clientset(t).CoreV1().Secrets(ns)
		_, err := secrets.Patch(t.Context(), "regional", "application/merge-patch+json",
			fmt.Appendf(nil, `{"stringData":{"value":%s}}`, strconv.Quote(access.kubeconfig(t))), metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "renewed"}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}))

	require.NoError(t, out.err)
	require.Equal(t, 1, out.execution.Step("after").Attempt)
	require.NotEmpty(t, settings(t, regional, there))
}

// A cluster that cannot be reached is told by its name and address before the
// step does anything, and asked again by the next attempt.
func testUnreachable(t *testing.T, mothership, _ *labtest.Lab) {
	t.Helper()
	ns := mothership.Namespace(t)

	out := runPlan(t, mothership, ns, secretStep(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"token": "s3cr3t"}}],
		"clusters": [{"name": "c", "cluster": {"server": "https://user:pa55@127.0.0.1:1"}}]}`)+`
- name: objects
  needs: [secret]
  cluster: regional
  retry: {install_retries: 2, retry_delay_seconds: 0.1}
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}}]}
`+regionalCluster)

	require.EqualError(t, out.err, `step "objects": cluster regional (https://127.0.0.1:1) cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused`)
	require.Equal(t, "nobody listens at this address: is the cluster running, and is the kubeconfig of today?", runner.HintOf(out.err))
	require.Equal(t, 2, out.execution.Step("objects").Attempt)
}

// A step whose cluster has no kubeconfig yet fails, and can be tried again.
func testNoKubeconfigYet(t *testing.T, mothership, regional *labtest.Lab) {
	t.Helper()
	ns, there := mothership.Namespace(t), regional.Namespace(t)
	access := newCredentials(t, regional, there)
	first := true

	out := runPlan(t, mothership, ns, `
- name: objects
  cluster: regional
  retry: {install_retries: 3, retry_delay_seconds: 0.1}
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}}]}
`+regionalCluster, observer(func(e runner.Event) {
		if e.State != runner.StateRetrying {
			return
		}
		secrets := mothership.Clientset(t).CoreV1().Secrets(ns)
		if first { // a Secret without the key
			first = false
			require.Equal(t, "cluster regional: Secret "+ns+"/regional does not exist", e.Error)
			_, err := secrets.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "regional"}, StringData: map[string]string{"config": "s3cr3t"},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			return
		}
		require.Equal(t, `cluster regional: key "value" of Secret `+ns+"/regional does not exist: it has config", e.Error)
		_, err := secrets.Patch(t.Context(), "regional", "application/merge-patch+json",
			fmt.Appendf(nil, `{"stringData":{"value":%s}}`, strconv.Quote(access.kubeconfig(t))), metav1.PatchOptions{})
		require.NoError(t, err)
	}))

	require.NoError(t, out.err)
	require.Equal(t, 3, out.execution.Step("objects").Attempt)
}
