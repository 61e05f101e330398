package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// remoteFleet is a fleet whose engine is the lab: two clusters, which are namespaces of it.
type remoteFleet struct {
	*testing.T
	client kubernetes.Interface
	lab    *labtest.Lab
	ns     string
	file   string
}

func newRemoteFleet(t *testing.T) *remoteFleet {
	t.Helper()
	lab := labtest.Node(t)
	lab.Image(t, "kplan.dev/kplan:dev", "./cmd/kplan")
	f := &remoteFleet{T: t, client: lab.Clientset(t), lab: lab, ns: lab.Namespace(t), file: filepath.Join(t.TempDir(), "fleet.yaml")}
	admin := metav1.ObjectMeta{Name: f.ns + "-admin"}
	_, err := f.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: admin, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.ns, Name: "default"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = f.client.RbacV1().ClusterRoleBindings().Delete(context.Background(), admin.Name, metav1.DeleteOptions{})
	})
	secrets := f.client.CoreV1().Secrets(f.ns)
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var token []byte
	require.Eventually(t, func() bool {
		secret, err := secrets.Get(t.Context(), "token", metav1.GetOptions{})
		if err == nil {
			token = secret.Data["token"]
		}
		return len(token) > 0
	}, time.Minute, 20*time.Millisecond)
	for _, name := range []string{"one", "two"} {
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://kubernetes.default.svc/?%s","insecure-skip-tls-verify":true}}],`+
				`"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, name, token)}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	f.write("plan.yaml", `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: `+f.ns+`}
state: {namespace: `+f.ns+`}
vars: {name: {}}
steps:
  - name: made
    apply: {files: [made.yaml], namespace: `+f.ns+`}
  - name: go
    needs: [made]
    timeout: 5m
    wait: {resource: "configmap/go-${{ vars.name }}", namespace: `+f.ns+`, for: create}
`)
	f.write("made.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"made\"}\n")
	f.write("fleet.yaml", fmt.Sprintf(`apiVersion: kplan.dev/v1alpha1
kind: Fleet
metadata: {name: remote}
plan: {file: plan.yaml}
inventory:
  - list:
      - {name: one, kubeconfig_secret: {namespace: %[1]s, name: one, key: value}, labels: {ring: "0"}}
      - {name: two, kubeconfig_secret: {namespace: %[1]s, name: two, key: value}, labels: {ring: "1"}}
vars: {name: "${{ cluster.name }}"}
waves:
  - {name: canary, select: 'cluster.labels.ring == "0"'}
  - {name: rest, approve: true}
engine: {kubernetes: {namespace: %[1]s, image: "kplan.dev/kplan:dev"}}
`, f.ns))
	return f
}

func (f *remoteFleet) write(name, text string) {
	f.Helper()
	require.NoError(f, os.WriteFile(filepath.Join(filepath.Dir(f.file), name), []byte(text), 0o600))
}

// command is a kplan fleet command on the lab.
func (f *remoteFleet) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := command(f.T, append([]string{"fleet"}, args...)...)
	cmd.Dir, cmd.Env = filepath.Dir(f.file), append(os.Environ(), "KUBECONFIG="+f.lab.Kubeconfig)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// run runs a command to its end, which has a code.
func (f *remoteFleet) run(code int, args ...string) string {
	f.Helper()
	cmd, out := f.command(args...)
	_ = cmd.Run()
	require.Equal(f, code, cmd.ProcessState.ExitCode(), "%s:\n%s", strings.Join(args, " "), out)
	return out.String()
}

// grant makes what kplan fleet rbac prints.
func (f *remoteFleet) grant() {
	f.Helper()
	for text := range strings.SplitSeq(f.run(0, "rbac", "fleet.yaml"), "\n---\n") {
		if strings.HasPrefix(text, "#") {
			continue
		}
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
		require.NoError(f, err, text)
		switch o := o.(type) {
		case *corev1.ServiceAccount:
			_, err = f.client.CoreV1().ServiceAccounts(o.Namespace).Create(f.Context(), o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = f.client.RbacV1().Roles(o.Namespace).Create(f.Context(), o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = f.client.RbacV1().RoleBindings(o.Namespace).Create(f.Context(), o, metav1.CreateOptions{})
		default:
			f.Fatalf("a %T", o)
		}
		require.NoError(f, err)
	}
}

// release lets a cluster's plan go on.
func (f *remoteFleet) release(names ...string) {
	f.Helper()
	for _, name := range names {
		_, err := f.client.CoreV1().ConfigMaps(f.ns).Create(f.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "go-" + name}}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(f, err)
		}
	}
}

// standing is how the newest run stands.
func (f *remoteFleet) standing() (s fleetStanding) {
	f.Helper()
	cmd, out := f.command("status", "-o", "json")
	_ = cmd.Run()
	require.NoError(f, json.Unmarshal(out.Bytes(), &s), out.String())
	return s
}

// becomes waits for the newest run to stand as it should. There may be none yet.
func (f *remoteFleet) becomes(what string, is func(fleetStanding) bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		var s fleetStanding
		cmd, out := f.command("status", "-o", "json")
		_ = cmd.Run()
		if json.Unmarshal(out.Bytes(), &s) == nil && is(s) {
			return
		}
	}
	f.Fatalf("it takes more than a minute: %s", what)
}

var isRunID = regexp.MustCompile(`[0-9]{8}-[0-9]{6}-[0-9a-f]+`)

// TestFleetInCluster leaves a run of a fleet to a cluster, and gives it every order.
func TestFleetInCluster(t *testing.T) {
	t.Parallel()
	f := newRemoteFleet(t)
	f.grant()
	f.run(2, "attach") // there is no run yet
	run := isRunID.FindString(f.run(0, "run", "fleet.yaml", "--detach"))
	require.NotEmpty(t, run)
	f.becomes("one runs", func(s fleetStanding) bool { return s.Clusters[0].State == "running" })
	require.Contains(t, f.run(0, "pause"), "starts nothing new")
	require.Contains(t, f.run(0, "approve", "rest"), "may begin wave rest")
	f.release("one", "two")
	f.becomes("one is done", func(s fleetStanding) bool { return s.Clusters[0].State.Good() || s.Clusters[0].State == "failed" })
	require.Equal(t, "pending", string(f.standing().Clusters[1].State))
	require.Contains(t, f.run(0, "resume"), "goes on")
	require.Contains(t, f.run(0, "attach", run, "--progress", "plain"), run)
	f.run(2, "pause")
	f.run(2, "resume")
	s := f.standing()
	require.Equal(t, "succeeded", string(s.State))
	require.Equal(t, run, s.Run)
}

// TestFleetLeftAlone ends the client of a run, which goes on; it is aborted then, and resumed.
func TestFleetLeftAlone(t *testing.T) {
	t.Parallel()
	f := newRemoteFleet(t)
	f.grant()
	cmd, out := f.command("run", "fleet.yaml", "--progress", "plain")
	require.NoError(t, cmd.Start())
	f.becomes("one runs", func(s fleetStanding) bool { return s.Clusters[0].State == "running" })
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), out.String())
	require.Contains(t, out.String(), "goes on in the cluster")
	require.Contains(t, out.String(), "fleet attach "+isRunID.FindString(out.String()))
	time.Sleep(2 * time.Second)
	require.Equal(t, "running", string(f.standing().Clusters[0].State), "the worker was ended as well")
	require.Contains(t, f.run(0, "abort", "--now"), "its workers have stopped")
	s := f.standing()
	require.Equal(t, "cancelled", string(s.State))
	f.release("one", "two")
	require.NotEmpty(t, isRunID.FindString(f.run(0, "resume", "--detach")))
	f.becomes("the wave waits", func(s fleetStanding) bool { return s.Waves[1].State == "approval" })
	f.run(0, "approve", "rest")
	f.run(0, "attach")
	s = f.standing()
	require.Equal(t, "succeeded", string(s.State))
	require.Equal(t, 2, s.Round)
}

// TestFleetSameReport runs one fleet by both engines: what they report differs in what is the
// run's own alone. The local one is in the lab's network, where pods are.
func TestFleetSameReport(t *testing.T) {
	t.Parallel()
	f := newRemoteFleet(t)
	f.grant()
	api, err := f.client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	require.NoError(t, err)
	server := "https://" + api.Spec.ClusterIP
	for _, name := range []string{"one", "two"} {
		secret, err := f.client.CoreV1().Secrets(f.ns).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		secret.Data["value"] = bytes.ReplaceAll(secret.Data["value"], []byte("https://kubernetes.default.svc"), []byte(server))
		_, err = f.client.CoreV1().Secrets(f.ns).Update(t.Context(), secret, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	f.release("one") // the other one fails
	for name, change := range map[string][2]string{"plan.yaml": {"timeout: 5m", "timeout: 5s"}, "fleet.yaml": {"approve: true", "max_failures: 1"}} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(f.file), name))
		require.NoError(t, err)
		require.Contains(t, string(text), change[0])
		f.write(name, strings.ReplaceAll(string(text), change[0], change[1]))
	}
	f.run(1, "run", "fleet.yaml", "--progress", "plain", "--report", "json=kubernetes.json")

	require.NoError(t, f.client.CoreV1().ConfigMaps(f.ns).Delete(t.Context(), "made", metav1.DeleteOptions{}))
	text, err := os.ReadFile(f.file)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(text), "engine:")
	require.True(t, found)
	f.write("fleet.yaml", before)
	config, err := clientcmd.LoadFromFile(f.lab.Kubeconfig)
	require.NoError(t, err)
	for _, c := range config.Clusters {
		c.Server = server
	}
	kubeconfig, self := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "kplan")
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	binary, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(binary, self))
	cmd := f.lab.Inside(t, self, "fleet", "run", "fleet.yaml", "--progress", "plain", "--report", "json=local.json")
	cmd.Dir, cmd.Env = filepath.Dir(f.file), append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, _ := cmd.CombinedOutput()
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), string(out))

	var reports []any
	for _, engine := range []string{"kubernetes", "local"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(f.file), engine+".json"))
		require.NoError(t, err)
		require.Contains(t, string(text), `"`+engine+`"`)
		var report any
		require.NoError(t, json.Unmarshal(text, &report))
		reports = append(reports, withoutRun(report))
	}
	require.Equal(t, reports[0], reports[1])
	require.Contains(t, fmt.Sprint(reports[0]), "timed out")
}

// withoutRun is a report without what is named run.
func withoutRun(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "run")
		for k := range v {
			v[k] = withoutRun(v[k])
		}
	case []any:
		for i := range v {
			v[i] = withoutRun(v[i])
		}
	}
	return v
}
