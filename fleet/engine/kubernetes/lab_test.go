package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

// The images of the tests.
const (
	image = "kplan.dev/kplan:dev"
	proxy = "kplan.dev/fleet-proxy:dev"
)

// site is a management cluster's namespace for the runs of a test, and the logical clusters
// that they work on: each has a namespace, and a kubeconfig in a Secret that leads to the
// same API server by a path of its own.
type site struct {
	testing.TB
	lab    *labtest.Lab
	client kube.Interface
	ns     string
	store  kubernetes.Store
	names  []string // of the clusters
	server string   // of the proxy
	plan   string   // its file
	kplan  string   // the program
}

// newSite makes a site with so many clusters, and a plan.
func newSite(t testing.TB, clusters int, text string) *site {
	t.Helper()
	lab := labtest.Node(t)
	kplan := lab.Image(t, image, "./cmd/kplan")
	lab.Image(t, proxy, "./fleet/engine/kubernetes/testdata/proxy")
	s := &site{TB: t, lab: lab, kplan: kplan, client: lab.Clientset(t), ns: lab.Namespace(t)}
	s.store = kubernetes.Store{Client: s.client, Namespace: s.ns}
	s.proxy()
	for i := range clusters {
		s.names = append(s.names, fmt.Sprintf("c%02d", i))
	}
	token := s.token()
	var group sync.WaitGroup
	for _, name := range s.names {
		group.Go(func() { s.cluster(name, token) })
	}
	group.Wait()
	require.Eventually(t, func() bool {
		d, err := s.client.AppsV1().Deployments(s.ns).Get(t.Context(), "proxy", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas > 0
	}, time.Minute, 50*time.Millisecond, "the proxy does not run")
	dir := t.TempDir()
	s.plan = filepath.Join(dir, "plan.yaml")
	write(t, s.plan, text)
	write(t, filepath.Join(dir, "chart", "Chart.yaml"), "apiVersion: v2\nname: one\nversion: 1.0.0\n")
	write(t, filepath.Join(dir, "chart", "templates", "one.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
	write(t, filepath.Join(dir, "two.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n")
	return s
}

func write(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// A plan with all that leaves something behind when it is cut off: a release, an applied
// object, and a wait for a word of the test's.
const (
	quickPlan = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: small}
vars:
  namespace: {description: the namespace of the cluster}
steps:
  - name: one
    helm: {chart: ./chart, release: one, namespace: "${{ vars.namespace }}"}
  - name: two
    needs: [one]
    apply: {files: [two.yaml], namespace: "${{ vars.namespace }}"}
`
	heldPlan = quickPlan + `  - name: go
    needs: [two]
    timeout: 5m
    wait: {resource: configmap/go, namespace: "${{ vars.namespace }}", for: "jsonpath={.data.go}=yes"}
`
)

// proxy makes the proxy that makes many clusters of one.
func (s *site) proxy() {
	s.Helper()
	labels := map[string]string{"app": "proxy"}
	one := int32(1)
	_, err := s.client.AppsV1().Deployments(s.ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: proxy, ImagePullPolicy: corev1.PullIfNotPresent}}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	service, err := s.client.CoreV1().Services(s.ns).Create(s.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	s.server = "https://" + service.Spec.ClusterIP
}

// token is that of an administrator, for the kubeconfigs.
func (s *site) token() string {
	s.Helper()
	name := metav1.ObjectMeta{Name: s.ns + "-admin"}
	_, err := s.client.CoreV1().ServiceAccounts(s.ns).Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
	require.NoError(s, err)
	_, err = s.client.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.ns, Name: name.Name}},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	s.Cleanup(func() {
		_ = s.client.RbacV1().ClusterRoleBindings().Delete(context.Background(), name.Name, metav1.DeleteOptions{})
	})
	secret, err := s.client.CoreV1().Secrets(s.ns).Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: name.Name}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	require.Eventually(s, func() bool {
		secret, err = s.client.CoreV1().Secrets(s.ns).Get(s.Context(), secret.Name, metav1.GetOptions{})
		return err == nil && len(secret.Data["token"]) > 0
	}, time.Minute, 20*time.Millisecond, "no token")
	return string(secret.Data["token"])
}

// namespaceOf is the namespace of a cluster's objects.
func (s *site) namespaceOf(name string) string { return s.ns + "-" + name }

// systemOf is the namespace that the proxy has for a cluster's kplan-system.
func (s *site) systemOf(name string) string {
	return fmt.Sprintf("kplan-%06x", crc32.ChecksumIEEE([]byte(s.namespaceOf(name)))&0xffffff)
}

// cluster makes a logical cluster.
func (s *site) cluster(name, token string) {
	for _, namespace := range []string{s.namespaceOf(name), s.systemOf(name)} {
		_, err := s.client.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"kplan.dev/test": "true"}},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Errorf("making a cluster: %v", err)
		}
		s.Cleanup(func() {
			_ = s.client.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
		})
	}
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"%s/c/%s","insecure-skip-tls-verify":true}}],`+
		`"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u","namespace":%q}}],"current-context":"x"}`,
		s.server, s.namespaceOf(name), token, s.namespaceOf(name))
	_, err := s.client.CoreV1().Secrets(s.ns).Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": []byte(kubeconfig)},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Errorf("making a kubeconfig: %v", err)
	}
}

// rollout freezes a rollout of waves of so many clusters.
func (s *site) rollout(waves ...fleet.WaveInfo) *fleet.Rollout {
	s.Helper()
	r := &fleet.Rollout{Version: fleet.RolloutVersion, Fleet: "edge", Plan: "small", Waves: waves, Engine: "kubernetes"}
	next := 0
	for _, w := range waves {
		for range w.Clusters {
			name := s.names[next]
			next++
			r.Clusters = append(r.Clusters, fleet.Cluster{
				Name: name, Wave: w.Name, Source: fleet.Source{Kind: "list"}, Vars: map[string]any{"namespace": s.namespaceOf(name)},
				Access: fleet.Access{Secret: &plan.KeyRef{Namespace: s.ns, Name: name + "-kubeconfig", Key: "value"}},
				Server: s.server + "/c/" + s.namespaceOf(name), CA: "insecure",
			})
		}
	}
	return r
}

// create makes a run, and the roles that it needs.
func (s *site) create(r *fleet.Rollout, change ...func(*object.Spec)) *kubernetes.Run {
	s.Helper()
	b, err := freeze.BundleOf(s.Context(), r, s.plan, load.Options{})
	require.NoError(s, err)
	r.Bundle = b.Digest
	r.Seal()
	archive, err := b.Archive()
	require.NoError(s, err)
	spec := &object.Spec{
		Run: object.Run(ledger.NewRunID()), Rollout: r, Engine: fleet.KubernetesEngine{Namespace: s.ns, Image: image}, Grace: 60,
		Bundle: object.Bundle{Digest: object.Digest(archive)}, By: "test@lab", Began: time.Now(),
	}
	for _, f := range change {
		f(spec)
	}
	s.grant(object.Grant{Fleet: r.Fleet, Engine: spec.Engine, Clusters: r.Clusters, Runs: []object.Run{spec.Run}, Rounds: 2, Waves: len(r.Waves)})
	run, err := s.store.Create(s.Context(), spec, archive)
	require.NoError(s, err)
	return run
}

// grant makes roles.
func (s *site) grant(g object.Grant) {
	s.Helper()
	for _, o := range g.Objects() {
		var err error
		switch o := o.(type) {
		case *corev1.ServiceAccount:
			_, err = s.client.CoreV1().ServiceAccounts(o.Namespace).Create(s.Context(), o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_ = s.client.RbacV1().Roles(o.Namespace).Delete(s.Context(), o.Name, metav1.DeleteOptions{})
			_, err = s.client.RbacV1().Roles(o.Namespace).Create(s.Context(), o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = s.client.RbacV1().RoleBindings(o.Namespace).Create(s.Context(), o, metav1.CreateOptions{})
		}
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(s, err)
		}
	}
}

// driven is a driver in a goroutine of its own.
type driven struct {
	site *site
	stop context.CancelCauseFunc
	done chan struct{}

	mu     sync.Mutex
	events []fleet.Event
	inner  map[string][]runner.Event
	x      *fleet.Execution
	err    error
}

var errStopped = errors.New("the test stopped it")

// drive begins to drive a run; the test's end ends it.
func (s *site) drive(run *kubernetes.Run) *driven {
	ctx, stop := context.WithCancelCause(s.Context())
	d := &driven{site: s, stop: stop, done: make(chan struct{}), inner: map[string][]runner.Event{}}
	driver := kubernetes.Driver{
		Run: run,
		Observe: func(e fleet.Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, e)
			if testing.Verbose() {
				s.Logf("%s %-8s %s %s%s %s %d %s%s", e.Time.Format("05.000"), e.Type, e.Wave, e.Cluster, e.WaveState, e.State, e.Attempt, e.Message, e.Error)
				if e.Result != nil && e.Result.Error != "" {
					s.Logf("  %s: %s", e.Cluster, e.Result.Error)
				}
			}
		},
		Inner: func(cluster string, e runner.Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.inner[cluster] = append(d.inner[cluster], e)
		},
	}
	go func() {
		defer close(d.done)
		d.x, d.err = driver.Do(ctx)
	}()
	s.Cleanup(func() {
		stop(errStopped)
		<-d.done
	})
	return d
}

// end waits for the end of the run.
func (d *driven) end(within time.Duration) *fleet.Execution {
	d.site.Helper()
	select {
	case <-d.done:
	case <-time.After(within):
		d.site.state()
		d.site.Fatalf("the run is not over after %s", within)
	}
	require.NoError(d.site, d.err)
	return d.x
}

// until waits for an event.
func (d *driven) until(within time.Duration, what string, is func(fleet.Event) bool) {
	d.site.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		d.mu.Lock()
		found := slices.ContainsFunc(d.events, is)
		d.mu.Unlock()
		if found {
			return
		}
	}
	d.site.state()
	d.site.Fatalf("there is no event for %s: %s", within, what)
}

// state logs how the site is.
func (s *site) state() {
	pods, err := s.client.CoreV1().Pods(s.ns).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range pods.Items {
		s.Logf("pod %s %s %s %+v", p.Name, p.Status.Phase, p.Status.Reason, p.Status.ContainerStatuses)
		if strings.HasPrefix(p.Name, "proxy") {
			continue
		}
		text, _ := s.client.CoreV1().Pods(s.ns).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: new(int64(20))}).DoRaw(s.Context())
		s.Logf("%s", text)
	}
	jobs, err := s.client.BatchV1().Jobs(s.ns).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, j := range jobs.Items {
		s.Logf("job %s suspended %v: %+v", j.Name, *j.Spec.Suspend, j.Status)
	}
}

// deployed asserts that the plan is done on a cluster, with one revision of its release.
func (s *site) deployed(name string) {
	s.Helper()
	secrets, err := s.client.CoreV1().Secrets(s.namespaceOf(name)).List(s.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=one"})
	require.NoError(s, err)
	last := ""
	for _, secret := range secrets.Items {
		last = secret.Labels["status"]
	}
	require.Equal(s, "deployed", last, name)
	_, err = s.client.CoreV1().ConfigMaps(s.namespaceOf(name)).Get(s.Context(), "two", metav1.GetOptions{})
	require.NoError(s, err, name)
}

// release lets a cluster's plan with a wait go on.
func (s *site) release(names ...string) {
	s.Helper()
	for _, name := range names {
		_, err := s.client.CoreV1().ConfigMaps(s.namespaceOf(name)).Create(s.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "go"}, Data: map[string]string{"go": "yes"},
		}, metav1.CreateOptions{})
		require.NoError(s, err)
	}
}

var background = metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}

func selecting(run *kubernetes.Run) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: run.Run.Selector()}
}

// podsNow counts the pods of the site.
func (s *site) podsNow() int {
	s.Helper()
	pods, err := s.client.CoreV1().Pods(s.ns).List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	return len(pods.Items)
}

// quota leaves room for one more pod.
func quota(pods int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(pods+1), resource.DecimalSI)}
}
