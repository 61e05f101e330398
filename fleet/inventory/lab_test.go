package inventory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// hub is a real management cluster.
type hub struct {
	*labtest.Lab
	t   *testing.T
	set kubernetes.Interface
	dyn dynamic.Interface
	// kubeconfig is the lab's own.
	kubeconfig []byte
}

// TestHub finds clusters in a real API server with the kinds of Cluster API, k0rdent and
// Sveltos, which the test makes.
func TestHub(t *testing.T) {
	h := &hub{Lab: labtest.Own(t, "test-inventory"), t: t}
	h.set = h.Clientset(t)
	var err error
	h.dyn, err = dynamic.NewForConfig(h.Config(t))
	require.NoError(t, err)
	h.kubeconfig, err = os.ReadFile(h.Kubeconfig)
	require.NoError(t, err)
	for _, step := range []struct {
		name string
		run  func(*hub, *testing.T)
	}{
		{"absent", (*hub).absent},
		{"capi", (*hub).capi},
		{"k0rdent", (*hub).k0rdent},
		{"sveltos", (*hub).sveltos},
		{"argocd", (*hub).argocd},
		{"forbidden", (*hub).forbidden},
		{"kubeconfigs", (*hub).kubeconfigs},
		{"holder", (*hub).holder},
		{"many", (*hub).many},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(h, t) })
	}
}

// management asks the lab under the name mgmt.
func (h *hub) management() *inventory.Management {
	return inventory.NewManagement(inventory.Options{
		Clusters: map[string]plan.Cluster{"mgmt": {Kubeconfig: h.Kubeconfig}}, Flags: h.Flags(), UserAgent: "kplan-test",
	})
}

func (h *hub) find(t *testing.T, e fleet.Inventory) inventory.Found {
	t.Helper()
	found, err := h.management().Find(t.Context(), []fleet.Inventory{e})
	require.NoError(t, err)
	return found[0]
}

// define makes a kind without a schema.
func (h *hub) define(t *testing.T, group, plural, kind string, versions ...string) {
	t.Helper()
	var list []map[string]any
	for i, v := range versions {
		list = append(list, map[string]any{
			"name": v, "served": true, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind}, "versions": list},
	}}
	body, err := json.Marshal(definition)
	require.NoError(t, err)
	crds := h.dyn.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err = crds.Patch(t.Context(), definition.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test"})
	require.NoError(t, err)
	resource := h.dyn.Resource(schema.GroupVersionResource{Group: group, Version: versions[0], Resource: plural})
	require.Eventually(t, func() bool {
		_, err := resource.List(context.Background(), metav1.ListOptions{Limit: 1})
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
}

// objects makes objects from YAML.
func (h *hub) objects(t *testing.T, resource, version, namespace string, texts ...string) {
	t.Helper()
	gr := schema.ParseGroupResource(resource)
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
		_, err := h.dyn.Resource(gr.WithVersion(version)).Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

func (h *hub) secret(t *testing.T, namespace, name string, labels map[string]string, data map[string][]byte) {
	t.Helper()
	_, err := h.set.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func names(clusters []fleet.Cluster) (all []string) {
	for _, c := range clusters {
		all = append(all, c.Name)
	}
	return all
}

func (h *hub) absent(t *testing.T) {
	t.Helper()
	for text, e := range map[string]fleet.Inventory{
		"cluster mgmt has no Cluster API: it does not serve clusters.cluster.x-k8s.io":                              {CAPI: &fleet.ObjectSource{Cluster: "mgmt"}},
		"the cluster of the command line has no k0rdent: it does not serve clusterdeployments.k0rdent.mirantis.com": {K0rdent: &fleet.ObjectSource{}},
	} {
		_, err := h.management().Find(t.Context(), []fleet.Inventory{e, e})
		require.EqualError(t, err, text)
		absent, is := errors.AsType[*inventory.AbsentError](err)
		require.True(t, is)
		require.Contains(t, runner.HintOf(absent), "is it the right cluster?")
	}
}

func (h *hub) capi(t *testing.T) {
	t.Helper()
	const group = "cluster.x-k8s.io"
	h.define(t, group, "machines", "Machine", "v1beta1") // the group is there, its Clusters are not
	_, err := h.management().Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{Cluster: "mgmt"}}})
	require.EqualError(t, err, "cluster mgmt has no Cluster API: it does not serve clusters.cluster.x-k8s.io")

	for _, versions := range [][]string{{"v1beta1"}, {"v1beta1", "v1beta2"}} {
		h.define(t, group, "clusters", "Cluster", versions...)
		ns, other := h.Namespace(t), h.Namespace(t)
		h.objects(t, "clusters."+group, "v1beta1", ns,
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: b, labels: {tier: edge, ring: '1'}, annotations: {site: kiel}}}",
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: a, labels: {tier: edge}}, spec: {paused: true}}",
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: by-annotation, labels: {tier: edge}, annotations: {cluster.x-k8s.io/paused: ''}}}",
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: going, labels: {tier: edge}}, status: {phase: Deleting}}",
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: core, labels: {tier: core}}}",
		)
		h.objects(t, "clusters."+group, "v1beta1", other, "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: b, labels: {tier: edge}}}")
		found := h.find(t, fleet.Inventory{CAPI: &fleet.ObjectSource{Cluster: "mgmt", Namespace: ns, Selector: "tier=edge"}})
		require.Equal(t, []string{ns + "/a", ns + "/b", ns + "/by-annotation"}, names(found.Clusters))
		require.Equal(t, fleet.Cluster{
			Name: ns + "/b", Namespace: ns, Labels: map[string]string{"tier": "edge", "ring": "1"}, Annotations: map[string]string{"site": "kiel"},
			Source: fleet.Source{Kind: "capi", Cluster: "mgmt", Object: "Cluster/" + ns + "/b"},
			Access: fleet.Access{Secret: &plan.KeyRef{Cluster: "mgmt", Namespace: ns, Name: "b-kubeconfig", Key: "value"}},
		}, found.Clusters[1])
		require.True(t, found.Clusters[0].Paused)
		require.True(t, found.Clusters[2].Paused)
		require.Len(t, found.Notes, 1)
		require.Equal(t, "cluster "+ns+"/going is left out: it is being deleted", found.Notes[0].String())
		require.Contains(t, names(h.find(t, fleet.Inventory{CAPI: &fleet.ObjectSource{Selector: "tier=edge"}}).Clusters), other+"/b")
	}
}

func (h *hub) k0rdent(t *testing.T) {
	t.Helper()
	const group = "k0rdent.mirantis.com"
	h.define(t, group, "clusterdeployments", "ClusterDeployment", "v1beta1", "v1alpha1")
	ns := h.Namespace(t)
	h.objects(t, "clusterdeployments."+group, "v1beta1", ns,
		"{apiVersion: k0rdent.mirantis.com/v1beta1, kind: ClusterDeployment, metadata: {name: a, labels: {region: eu}}, spec: {template: aws}}",
		"{apiVersion: k0rdent.mirantis.com/v1beta1, kind: ClusterDeployment, metadata: {name: dry}, spec: {dryRun: true}}",
		"{apiVersion: k0rdent.mirantis.com/v1beta1, kind: ClusterDeployment, metadata: {name: far}, status: {region: us-east}}",
	)
	found := h.find(t, fleet.Inventory{K0rdent: &fleet.ObjectSource{Namespace: ns}})
	require.Equal(t, []string{ns + "/a"}, names(found.Clusters))
	require.Equal(t, plan.KeyRef{Namespace: ns, Name: "a-kubeconfig", Key: "value"}, *found.Clusters[0].Access.Secret)
	require.Equal(t, "cluster "+ns+"/dry is left out: it is a dry run (spec.dryRun), and no cluster", found.Notes[0].String())
	require.Len(t, found.Refused, 1)
	require.EqualError(t, found.Refused[0].Err, "ClusterDeployment "+ns+`/far is of the region "us-east": its kubeconfig is in the regional cluster, not here`)
	require.Contains(t, runner.HintOf(found.Refused[0].Err), "name the regional cluster under clusters")
}

func (h *hub) sveltos(t *testing.T) {
	t.Helper()
	const group = "lib.projectsveltos.io"
	h.define(t, group, "sveltosclusters", "SveltosCluster", "v1beta1")
	ns := h.Namespace(t)
	h.objects(t, "sveltosclusters."+group, "v1beta1", ns,
		"{apiVersion: lib.projectsveltos.io/v1beta1, kind: SveltosCluster, metadata: {name: a}}",
		"{apiVersion: lib.projectsveltos.io/v1beta1, kind: SveltosCluster, metadata: {name: b}, spec: {kubeconfigName: own, kubeconfigKeyName: kc, paused: true}}",
		"{apiVersion: lib.projectsveltos.io/v1beta1, kind: SveltosCluster, metadata: {name: pulls}, spec: {pullMode: true}}",
		"{apiVersion: lib.projectsveltos.io/v1beta1, kind: SveltosCluster, metadata: {name: wid}, spec: {workloadIdentity: {provider: aws}}}",
	)
	found := h.find(t, fleet.Inventory{Sveltos: &fleet.ObjectSource{Namespace: ns}})
	require.Equal(t, []string{ns + "/a", ns + "/b"}, names(found.Clusters))
	require.Equal(t, plan.KeyRef{Namespace: ns, Name: "a-sveltos-kubeconfig"}, *found.Clusters[0].Access.Secret)
	require.Equal(t, plan.KeyRef{Namespace: ns, Name: "own", Key: "kc"}, *found.Clusters[1].Access.Secret)
	require.True(t, found.Clusters[1].Paused)
	require.Len(t, found.Refused, 2)
	require.ErrorContains(t, found.Refused[0].Err, "is in pull mode (spec.pullMode)")
	require.ErrorContains(t, found.Refused[1].Err, "has a workload identity (spec.workloadIdentity)")

	h.secret(t, ns, "a-sveltos-kubeconfig", nil, map[string][]byte{"re-kubeconfig": h.kubeconfig})
	got, err := (&inventory.Kubeconfigs{Management: h.management()}).Read(t.Context(), found.Clusters[0])
	require.NoError(t, err)
	require.Equal(t, h.kubeconfig, got)
}

func (h *hub) argocd(t *testing.T) {
	t.Helper()
	ns := h.Namespace(t)
	own, err := clientcmd.Load(h.kubeconfig)
	require.NoError(t, err)
	at := own.Contexts[own.CurrentContext]
	server := own.Clusters[at.Cluster].Server
	config, err := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{
		"caData": own.Clusters[at.Cluster].CertificateAuthorityData, "certData": own.AuthInfos[at.AuthInfo].ClientCertificateData, "keyData": own.AuthInfos[at.AuthInfo].ClientKeyData,
	}})
	require.NoError(t, err)
	for name, s := range map[string]struct{ server, config string }{
		"lab": {server, string(config)}, "aws": {"https://aws", `{"awsAuthConfig": {"clusterName": "x"}}`}, "exec": {"https://exec", `{"execProviderConfig": {"command": "steal"}}`},
		"here": {"https://kubernetes.default.svc", "{}"}, "broken": {"https://broken", "{secret"}, "bare": {"https://bare", "{}"},
	} {
		h.secret(t, ns, name, map[string]string{"argocd.argoproj.io/secret-type": "cluster", "env": "x"}, map[string][]byte{"name": []byte(name), "server": []byte(s.server), "config": []byte(s.config)})
	}
	h.secret(t, ns, "unlabelled", nil, nil)
	found := h.find(t, fleet.Inventory{ArgoCD: &fleet.ObjectSource{Namespace: ns, Selector: "env=x"}})
	require.Equal(t, []string{"lab"}, names(found.Clusters))
	require.Len(t, found.Notes, 1)
	require.Contains(t, found.Notes[0].String(), "cluster here is left out: it is the cluster that Argo CD runs in")
	refused := map[string]string{}
	for _, r := range found.Refused {
		refused[r.Name] = r.Err.Error()
		require.NotContains(t, r.Err.Error(), "{secret")
	}
	of := func(name string) string { return "Secret " + ns + "/" + name + " in the cluster of the command line: " }
	require.Equal(t, map[string]string{
		"aws":    of("aws") + "it has awsAuthConfig, for which Argo CD runs a program of AWS; kplan runs none",
		"exec":   of("exec") + `it would run the program "steal" for its credentials (execProviderConfig); nothing runs because a Secret says so`,
		"broken": of("broken") + "its config is no JSON of the form that Argo CD has",
		"bare":   of("bare") + "its config has no credentials: neither bearerToken, nor username, nor tlsClientConfig.certData",
	}, refused)

	text, err := (&inventory.Kubeconfigs{Management: h.management()}).Read(t.Context(), found.Clusters[0])
	require.NoError(t, err)
	made, err := clientcmd.RESTConfigFromKubeConfig(text)
	require.NoError(t, err)
	set, err := kubernetes.NewForConfig(made)
	require.NoError(t, err)
	_, err = set.Discovery().ServerVersion()
	require.NoError(t, err)
	pinned, ca, err := inventory.Pin(text)
	require.NoError(t, err)
	of1, of2, err := inventory.Pin(h.kubeconfig)
	require.NoError(t, err)
	require.Equal(t, []string{of1, of2}, []string{pinned, ca})

	none := h.find(t, fleet.Inventory{ArgoCD: &fleet.ObjectSource{Namespace: ns, Selector: "env=y"}})
	require.Len(t, none.Notes, 1)
}

// forbidden finds out which right is missing.
func (h *hub) forbidden(t *testing.T) {
	t.Helper()
	ns := h.Namespace(t)
	_, err := h.set.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"list"}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = h.set.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "r"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "jane"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	flags := h.Flags()
	flags.Impersonate = new("jane")
	m := inventory.NewManagement(inventory.Options{Flags: flags})
	require.Eventually(t, func() bool { // the authorizer follows its objects
		_, err = m.Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{Namespace: ns}}})
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)
	_, err = m.Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{}}})
	require.EqualError(t, err, "the cluster of the command line does not allow to list clusters.cluster.x-k8s.io in all namespaces")
	require.Equal(t, "grant the verb list on clusters.cluster.x-k8s.io; check it by: kubectl auth can-i list clusters.cluster.x-k8s.io -A; or name a namespace in the inventory", runner.HintOf(err))
	_, err = (&inventory.Kubeconfigs{Management: m}).Read(t.Context(), fleet.Cluster{Access: fleet.Access{Secret: &plan.KeyRef{Namespace: ns, Name: "a-kubeconfig"}}})
	require.EqualError(t, err, "the cluster of the command line does not allow to get secrets a-kubeconfig in namespace "+ns)
	require.Equal(t, fleet.Forbidden, inventory.ClassOf(err))
}

// kubeconfigs are read each time; those that would rule this machine are refused.
func (h *hub) kubeconfigs(t *testing.T) {
	t.Helper()
	ns := h.Namespace(t)
	const head = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://x'}}], users: [{name: u, user: "
	h.secret(t, ns, "s", nil, map[string][]byte{
		"good": h.kubeconfig, "none": []byte("[s3cret"), "exec": []byte(head + "{exec: {apiVersion: client.authentication.k8s.io/v1, command: steal, interactiveMode: Never}}}]}"),
		"file": []byte(head + "{client-key: /etc/key}}]}"), "empty": nil,
	})
	k := &inventory.Kubeconfigs{Management: h.management()}
	of := "Secret " + ns + "/s in cluster mgmt: "
	for _, c := range []struct{ name, key, want string }{
		{"s", "good", ""},
		{"s", "none", of + "there is no kubeconfig in it"},
		{"s", "empty", of + "the kubeconfig has no contexts"},
		{"s", "exec", of + `the kubeconfig would run the program "steal" for its credentials; nothing runs because a fleet says so`},
		{"s", "file", of + `the kubeconfig refers to the file "/etc/key" in client-key; one from a Secret may not`},
		{"s", "", of + `it has no key "value"`},
		{"gone", "", "Secret " + ns + "/gone in cluster mgmt: it is not there"},
	} {
		got, err := k.Read(t.Context(), fleet.Cluster{Access: fleet.Access{Secret: &plan.KeyRef{Cluster: "mgmt", Namespace: ns, Name: c.name, Key: c.key}}})
		if c.want == "" {
			require.NoError(t, err)
			require.Equal(t, h.kubeconfig, got)
			continue
		}
		require.EqualError(t, err, c.want)
		require.NotContains(t, err.Error()+runner.HintOf(err), "s3cret")
		require.Equal(t, fleet.Refused, inventory.ClassOf(err))
	}
}

// holder reads the kubeconfig of a management cluster from a Secret of another, and once
// more when its credentials are no longer taken.
func (h *hub) holder(t *testing.T) {
	t.Helper()
	ns := h.Namespace(t)
	broken, err := clientcmd.Load(h.kubeconfig)
	require.NoError(t, err)
	for _, u := range broken.AuthInfos {
		u.ClientCertificateData, u.ClientKeyData, u.Token = nil, nil, "expired"
	}
	old, err := clientcmd.Write(*broken)
	require.NoError(t, err)
	h.secret(t, ns, "hub", nil, map[string][]byte{"value": old})
	m := inventory.NewManagement(inventory.Options{
		Clusters: map[string]plan.Cluster{"far": {KubeconfigSecret: &plan.KeyRef{Namespace: ns, Name: "hub"}}, "self": {KubeconfigSecret: &plan.KeyRef{Cluster: "self", Name: "x"}}}, Flags: h.Flags(),
	})
	find := func() error {
		_, err := m.Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{Cluster: "far", Namespace: ns}}})
		return err
	}
	require.EqualError(t, find(), "cluster far does not accept the credentials in its kubeconfig")
	_, err = h.set.CoreV1().Secrets(ns).Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hub"}, Data: map[string][]byte{"value": h.kubeconfig}}, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, find())
	_, err = m.Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{Cluster: "self"}}})
	require.EqualError(t, err, "cluster self: its kubeconfig is in a Secret of the cluster itself: self → self")
	_, err = m.Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{Cluster: "nobody"}}})
	require.EqualError(t, err, `the fleet file has no cluster "nobody"`)

	listed := []fleet.Listed{{Name: "x", KubeconfigSecret: &plan.KeyRef{Cluster: "far", Name: "k"}}}
	found, err := m.Find(t.Context(), []fleet.Inventory{{List: listed}})
	require.NoError(t, err)
	require.Equal(t, plan.KeyRef{Cluster: "far", Namespace: "default", Name: "k", Key: "value"}, *found[0].Clusters[0].Access.Secret)
}

// many are more than one page has.
func (h *hub) many(t *testing.T) {
	t.Helper()
	ns := h.Namespace(t)
	var group errgroup.Group
	group.SetLimit(16)
	clusters := h.dyn.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "clusters"}).Namespace(ns)
	const all = 1001
	for i := range all {
		group.Go(func() error {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": map[string]any{"name": fmt.Sprintf("c%04d", i)}}}
			_, err := clusters.Create(t.Context(), u, metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(t, group.Wait())
	found := h.find(t, fleet.Inventory{CAPI: &fleet.ObjectSource{Namespace: ns}})
	require.Len(t, found.Clusters, all)
	require.Equal(t, ns+"/c1000", found.Clusters[all-1].Name)
}

// A management cluster that nobody is at is told as such.
func TestUnreachable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`), 0o600))
	m := inventory.NewManagement(inventory.Options{Clusters: map[string]plan.Cluster{"mgmt": {Kubeconfig: file}}})
	_, err := m.Find(t.Context(), []fleet.Inventory{{CAPI: &fleet.ObjectSource{Cluster: "mgmt"}}})
	require.EqualError(t, err, "cluster mgmt cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused")
	require.Equal(t, fleet.Unreachable, inventory.ClassOf(err))
}
